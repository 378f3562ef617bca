"""Which derivative is exact for which noise and which loss: round, dither, a table, one categorical."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from experiments.oracles import categorical, smoothed
from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.intervals import LEVEL, Interval, mean_interval, share_interval, together
from experiments.oracles.setting import normal
from experiments.oracles.verdicts import above, words
from experiments.plotting import COLOURS, style

SIGMAS = (0.2, 0.25, 0.3, 0.4, 0.5, 0.7)
SPREADS, PROBLEMS, SEED = (0.25, 1.0, 4.0), 1000, 40_000

Biases = tuple[Tensor, Tensor]  # of straight-through and of ReinMax, (PROBLEMS,) each


def answer() -> Answer:
    """The identity on round, and straight-through against ReinMax on quadratic and tanh losses."""
    x = torch.linspace(-1, 1, 401, dtype=torch.float64)
    worst = {s: float((1 - smoothed.stairs_slope(x, "normal", s, 0.5)).abs().max()) for s in SIGMAS}
    law = {s: 2 * math.exp(-2 * math.pi**2 * s**2) for s in SIGMAS}
    ratios = [worst[s] / law[s] for s in SIGMAS if s >= 0.25]
    tanh = {f"tanh, weights of deviation {spread:g}": _biases(spread) for spread in SPREADS}
    quadratic = _biases(None)
    exact = float(quadratic[1].max())
    checks = [
        Check(
            "the identity on round has the error 2 exp(-2 pi² sigma²), from sigma = 0.25 on",
            f"{min(ratios):.3f} to {max(ratios):.3f} times that",
            all(0.95 < ratio < 1.05 for ratio in ratios),
        ),
        Check(
            "ReinMax is exact for quadratic losses", f"bias at most {exact:.1g} over {PROBLEMS} losses", exact < 1e-9
        ),
        *(_check(name, biases) for name, biases in tanh.items()),
    ]
    rounding = Table(
        "Identity on round under normal noise of sigma steps.",
        ("sigma", *(f"{s:g}" for s in SIGMAS)),
        [
            ("largest error", *(f"{v:.3g}" for v in worst.values())),
            ("leading term", *(f"{v:.3g}" for v in law.values())),
        ],
    )
    remarks = (
        f"The {PROBLEMS} losses and logits have the seeds from {SEED} on. One loss can show either result. An "
        "enumeration written independently of this code gives the same biases."
    )
    return Answer(checks, [rounding, _table(quadratic, tanh)], remarks, _figure(x, tanh))


def _check(name: str, biases: Biases) -> Check:
    share = _share_worse(biases, together(len(SPREADS)))
    return Check(
        f"{name}: ReinMax has a larger bias than straight-through for more than half of the losses",
        f"for {words(share)} of them",
        above([share], 0.5),
    )


def _share_worse(biases: Biases, level: float = LEVEL) -> Interval:
    return share_interval(int((biases[1] > biases[0]).sum()), PROBLEMS, level)


def _table(quadratic: Biases, tanh: dict[str, Biases]) -> Table:
    rows = [("quadratic", *_medians(quadratic), "-", words(_share_worse(quadratic)))]
    for name, (st, reinmax) in tanh.items():
        ratio = mean_interval((reinmax / st).log2().tolist())
        between = " to ".join(f"{2**end:.3g}" for end in (ratio.low, ratio.high))
        ratio_words = f"{2**ratio.mean:.3g} ({between})"
        rows.append((name, *_medians((st, reinmax)), ratio_words, words(_share_worse((st, reinmax)))))
    title = (
        f"One of five categories, bias over {PROBLEMS} random losses and logits, by enumeration: medians, geometric "
        "mean of the ratio ReinMax / straight-through, and share of losses for which ReinMax has the larger bias."
    )
    return Table(title, ("loss", "straight-through", "ReinMax", "ratio", "ReinMax worse"), rows)


def _medians(biases: Biases) -> tuple[str, str]:
    return f"{biases[0].median():.3g}", f"{biases[1].median():.3g}"


def _biases(spread: float | None) -> Biases:
    """Biases for random losses; None: quadratic ones."""
    found = []
    for seed in range(SEED, SEED + PROBLEMS):
        q, b, theta = normal((5, 5), seed), normal((5,), seed + 10**4), normal((5,), seed + 2 * 10**4)
        f = partial(categorical.quadratic, q=q, b=b) if spread is None else partial(categorical.tanh, w=spread * q, b=b)
        truth = categorical.exact(f, theta)
        means = (categorical.straight_through_mean(f, theta), categorical.reinmax_mean(f, theta))
        found.append(torch.stack([(mean - truth).norm() / truth.norm() for mean in means]))
    st, reinmax = torch.stack(found).T
    return st, reinmax


def _figure(x: Tensor, tanh: dict[str, Biases]) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(9, 3.4))
        left, right = figure.subplots(1, 2)
        for s, colour in zip((0.2, 0.25, 0.3, 0.5), COLOURS[1:], strict=False):
            slope = smoothed.stairs_slope(x, "normal", s, 0.5)
            left.plot(x, slope, color=colour, label=f"sigma = {s:g}", linewidth=1.2)
        left.axhline(1, color="black", linestyle="--", linewidth=1, label="identity")
        left.set(title="exact derivative of round under normal noise", xlabel="x")
        left.set_ylim(0, 2.9)
        left.legend(ncols=2, loc="upper center")
        name, (st, reinmax) = next(iter(tanh.items()))
        right.plot(st, reinmax, linestyle="", marker=".", markersize=3, color="#0072B2")
        right.axline((0.1, 0.1), (1, 1), color="black", linewidth=0.8)
        right.set(
            xscale="log",
            yscale="log",
            xlim=(1e-3, 2),
            ylim=(1e-3, 2),
            xlabel="bias, straight-through",
            ylabel="bias, ReinMax",
            title=name,
        )
        figure.subplots_adjust(left=0.06, right=0.99, top=0.9, bottom=0.16)
    return figure
