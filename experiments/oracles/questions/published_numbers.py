"""The published table of one categorical, by enumeration, and the published traces of the toy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from experiments.oracles import categorical, toy
from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.published import CATEGORICAL, DRAWS, SAMPLED, TAU, TRACES, agrees, is_repetition
from experiments.plotting import looks, style
from surrogates.core import Strategy
from surrogates.strategies.gumbel_rao import GumbelRao
from surrogates.strategies.reinmax import ReinMax
from surrogates.strategies.sampled import Sampled
from surrogates.strategies.zgr import ZGR

COLUMNS: dict[str, Strategy] = {"straight-through": Sampled(), "ZGR": ZGR(), "ReinMax": ReinMax(temperature=TAU)}
REPETITIONS = 10
ARMS: dict[str, Strategy] = {"straight-through": Sampled(), "ReinMax": ReinMax()}

LOOKS = looks(zip(("sampled", "reinmax"), ARMS, strict=True))


def answer() -> Answer:
    """36 numbers of the table by enumeration, 12 that were sampled, 12 of the traces."""
    measured = {(*key, name): value for key in CATEGORICAL for name, value in _row(*key).items()}
    pairs = {
        (dim, seed, name): published
        for (dim, seed), row in CATEGORICAL.items()
        for name, published in zip(COLUMNS, row, strict=True)
    }
    hits = sum(agrees(a, b) for key, row in pairs.items() for a, b in zip(measured[key], row, strict=True))
    repeated = {key: _repeat(*key) for key in SAMPLED}
    near = sum(is_repetition(a, b) for key, row in SAMPLED.items() for a, b in zip(repeated[key].T, row, strict=True))
    traces = {name: toy.trace(strategy) for name, strategy in ARMS.items()}
    off = max(float((traces[name][[0, -1]] - torch.tensor(TRACES[name])).abs().max()) for name in ARMS)
    checks = [
        Check(
            "all numbers of the table agree in the digits given, four or five",
            f"{hits} of {2 * len(pairs)}",
            hits == 2 * len(pairs),
        ),
        Check(
            f"the sampled numbers ({DRAWS} draws a category) lie within 3 deviations of as many draws here",
            f"{near} of {2 * len(SAMPLED)}",
            near == 2 * len(SAMPLED),
        ),
        Check("the toy's loss in its first and last epoch agrees within 0.002", f"at most {off:.4f} off", off < 2e-3),
    ]
    rows = [
        (f"{dim}, {seed}, {name}", *(f"{a:.5g} ({b:.5g})" for a, b in zip(measured[dim, seed, name], row, strict=True)))
        for (dim, seed, name), row in pairs.items()
    ]
    sampled = [
        (
            f"ST Gumbel-softmax, T = {T:g}" if samples == 1 else f"Gumbel-Rao of {samples}, T = {T:g}",
            *(f"{a.mean():.3g} ± {a.std():.2g} ({b:g})" for a, b in zip(repeated[samples, T].T, row, strict=True)),
        )
        for (samples, T), row in SAMPLED.items()
    ]
    ends = [
        (
            f"{name}, {when}",
            *(f"{a:.4f} ({b:.4f})" for a, b in zip(traces[name][at].tolist(), TRACES[name][at], strict=True)),
        )
        for name in ARMS
        for when, at in (("first epoch", 0), ("last epoch", -1))
    ]
    tables = [
        Table("Measured (published).", ("categories, seed, estimator", "squared bias", "variance"), rows),
        Table(
            f"Gumbel family, 8 categories, seed 0: mean and deviation of {REPETITIONS} repetitions of {DRAWS} draws a"
            " category (published).",
            ("estimator", "squared bias", "variance"),
            sampled,
        ),
        Table("Training loss, measured (published).", ("", *(f"q = {q:g}" for q in toy.POWERS)), ends),
    ]
    return Answer(checks, tables, figure=_figure(traces))


def _row(dim: int, seed: int) -> dict[str, tuple[float, float]]:
    f, theta = categorical.published_problem(dim, seed)
    return {name: categorical.rescaled(strategy, f, theta) for name, strategy in COLUMNS.items()}


def _repeat(samples: int, T: float) -> Tensor:
    """Squared bias and variance of each repetition, (REPETITIONS, 2)."""
    strategy, problem = GumbelRao(temperature=T, samples=samples), categorical.published_problem(8, 0)
    return torch.tensor([categorical.rescaled(strategy, *problem, DRAWS, seed) for seed in range(REPETITIONS)])


def _figure(traces: dict[str, Tensor]) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(9, 3))
        for i, (axes, q) in enumerate(zip(figure.subplots(1, 3), toy.POWERS, strict=True)):
            for name, trace in traces.items():
                colour, dash = LOOKS[name].colour, LOOKS[name].dash
                axes.plot(range(1, len(trace) + 1), trace[:, i], color=colour, linestyle=dash, label=name)
                ends = [TRACES[name][at][i] for at in (0, -1)]
                axes.plot([1, len(trace)], ends, color=colour, linestyle="", marker="x", label=f"{name}, published")
            axes.set(title=f"q = {q:g}", xlabel="epoch")
        figure.axes[0].set_ylabel("training loss")
        figure.subplots_adjust(left=0.07, right=0.99, top=0.9, bottom=0.3, wspace=0.25)
        figure.legend(*axes.get_legend_handles_labels(), loc="lower center", ncols=4)
    return figure
