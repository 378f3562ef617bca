"""Where straight-through stops on the toy, and where estimators that are right go."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from experiments.oracles import toy
from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.intervals import Interval, mean_interval, together
from experiments.oracles.verdicts import above, below, within, words
from experiments.plotting import looks, style
from surrogates.core import Strategy
from surrogates.strategies.gumbel import Gumbel
from surrogates.strategies.reinmax import ReinMax
from surrogates.strategies.sampled import Sampled

ARMS: dict[str, Strategy | None] = {
    "straight-through": Sampled(),
    "ST Gumbel-softmax": Gumbel(),
    "ReinMax": ReinMax(),
    "score function": None,
}
LOOKS = looks(zip(("sampled", "gumbel", "reinmax", "score_function"), ARMS, strict=True))
WRONG = [toy.loss_at(toy.stationary(q), q) for q in toy.POWERS]  # where straight-through stops
BEST = [toy.loss_at(0, q) for q in toy.POWERS]
SEED = 1
THETA, WARMTHS = -1.0, (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def answer() -> Answer:
    """Four trainings of 8000 steps, all three powers at once; Gumbel-softmax's mean derivative over T."""
    curves = {name: toy.train(strategy, seed=SEED) for name, strategy in ARMS.items()}
    ends = {name: toy.final_losses(curve).tolist() for name, curve in curves.items()}
    rows = [("predicted for straight-through", *_four(WRONG)), ("optimum", *_four(BEST))]
    rows += [(name, *(words(mean_interval(losses), ".4f") for losses in end)) for name, end in ends.items()]
    soft, hard = ([toy.mean_slope(Gumbel(T, value=value), THETA, 2.0) for T in WARMTHS] for value in ("soft", "hard"))
    p = 1 / (1 + math.exp(-THETA))
    truth = p * (1 - p) * ((1 - toy.C) ** 2 - toy.C**2)
    head = ("expected loss, mean of the last 200 steps", *(f"q = {q:g}" for q in toy.POWERS))
    title = (
        f"8000 steps of Adam, batch 64, seed {SEED}: means of {toy.LATENTS} latents, which train independently, with "
        "intervals. One logit a bit at learning rate 0.002 equals the two logits a bit at 0.001 of ReinMax's "
        "repository. At a smaller rate an estimator that is right has not yet arrived."
    )
    means = Table(
        f"Mean derivative of (z - {toy.C:g})^2 by the logit at {THETA:g}, by quadrature; the true one is {truth:.4f}.",
        ("T", *(f"{T:g}" for T in WARMTHS)),
        [("Gumbel-softmax", *_four(soft)), ("ST Gumbel-softmax", *_four(hard))],
    )
    checks = [*_check_ends(ends), _check_signs(soft, hard, truth)]
    return Answer(checks, [Table(title, head, rows), means], figure=_figure(curves))


def _check_ends(losses: dict[str, list[list[float]]]) -> list[Check]:
    level = together(len(toy.POWERS))
    ends = {name: [mean_interval(row, level) for row in rows] for name, rows in losses.items()}
    off = [i.moved(wrong) for i, wrong in zip(ends["straight-through"], WRONG, strict=True)]
    over = {
        name: [i.moved(best) for i, best in zip(ends[name], BEST, strict=True)]
        for name in ("score function", "ReinMax")
    }
    way = [i.moved(best, wrong - best) for i, best, wrong in zip(ends["ST Gumbel-softmax"], BEST, WRONG, strict=True)]
    return [
        Check(
            "straight-through stops at the predicted loss, within 0.0005",
            f"off by {_list_intervals(off, '+.5f')}",
            within(off, -5e-4, 5e-4),
        ),
        *(
            Check(
                f"{name} ends within 0.005 of the optimum",
                f"above it by {_list_intervals(gaps, '.4f')}",
                below(gaps, 5e-3),
            )
            for name, gaps in over.items()
        ),
        Check(
            "straight-through Gumbel-softmax at T = 1 ends nearer to the wrong point than to the optimum",
            f"share of the way from the optimum to that point: {_list_intervals(way, '.3f')}",
            above(way, 0.5),
        ),
    ]


def _check_signs(soft: list[float], hard: list[float], truth: float) -> Check:
    return Check(
        f"at theta = {THETA:g} and q = 2 the derivative of Gumbel-softmax, soft and straight-through, has the wrong"
        " sign from T = 0.5 on and the right sign at T = 0.02",
        f"true {truth:.4f}; at T = {WARMTHS[0]:g} soft {soft[0]:.4f}, straight-through {hard[0]:.4f}",
        all(s < 0 for row in (soft, hard) for s, T in zip(row, WARMTHS, strict=True) if T >= 0.5)
        and min(soft[0], hard[0]) > 0,
    )


def _list_intervals(intervals: list[Interval], form: str) -> str:
    return ", ".join(f"{words(i, form)} at q = {q:g}" for i, q in zip(intervals, toy.POWERS, strict=True))


def _four(values: list[float]) -> list[str]:
    return [f"{value:.4f}" for value in values]


def _figure(curves: dict[str, Tensor]) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(9, 3.4))
        for i, (axes, q) in enumerate(zip(figure.subplots(1, 3), toy.POWERS, strict=True)):
            axes.axhline(WRONG[i], color="0.8", linewidth=4, label="predicted stop")
            axes.axhline(BEST[i], color="0.5", linestyle=":", label="optimum")
            for name, curve in curves.items():
                drawn = {"color": LOOKS[name].colour, "linestyle": LOOKS[name].dash}
                axes.plot(range(0, len(curve), 40), curve[::40, i].mean(-1), label=name, linewidth=1.3, **drawn)
            axes.set(title=f"q = {q:g}", xlabel="step")
        figure.axes[0].set_ylabel("expected loss")
        figure.subplots_adjust(left=0.07, right=0.99, top=0.9, bottom=0.32, wspace=0.25)
        figure.legend(*axes.get_legend_handles_labels(), loc="lower center", ncols=3)
    return figure
