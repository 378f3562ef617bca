"""Whether a normalised optimizer hides the wrong scale of a gradient: the first of six binary layers, SGD and Adam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from experiments.oracles import deep_binary, figures
from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.contenders import contenders
from experiments.oracles.first_layer import DRAWS, OPTIMIZERS, STEPS, choose_rates, direction, train
from experiments.oracles.intervals import Interval, mean_interval, together
from experiments.oracles.scores import rank_correlation
from experiments.oracles.verdicts import above, below, within, words
from experiments.plotting import style

GRIDS = {"SGD": (1.0, 3.0, 10.0, 30.0, 100.0, 300.0), "Adam": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)}
CHOOSING, NETS = range(110_000, 110_500, 100), range(120_000, 120_800, 100)  # seeds of nets
SHOWN = (20, STEPS)  # the steps after which decreases are compared
TRUE_DIRECTION, MARGIN = 0.95, 0.1  # cosine of the mean; of a share that counts as equal to 1
EXACT = "exact"

Shares = dict[tuple[str, str, int], list[float]]  # by optimizer, estimator and step, one for each net


def answer() -> Answer:
    """Decrease of the exact loss by each estimator's gradient, as a share of that by the exact gradient."""
    arms = {figures.SHOWN[c.name]: c for c in contenders(deep_binary.settings()[-1]) if c.name in figures.SHOWN}
    rates = choose_rates(GRIDS, CHOOSING)
    directions = {name: direction(arm, CHOOSING) for name, arm in arms.items()}
    curves = {
        (by, name): torch.stack([train(seed, arm, make, rates[by]) for seed in NETS])
        for by, make in OPTIMIZERS.items()
        for name, arm in {EXACT: None, **arms}.items()
    }
    shares = {
        (by, name, step): _shares(curve, curves[by, EXACT], step)
        for (by, name), curve in curves.items()
        for step in SHOWN
    }
    return Answer(_checks(directions, shares), [_table(directions, shares)], _remarks(rates), _figure(curves))


def _table(directions: dict[str, tuple[float, float]], shares: Shares) -> Table:
    columns = [(by, step) for by in OPTIMIZERS for step in SHOWN]
    rows = [
        (name, f"{cosine:.3f}", f"{scale:.3g}", *(words(mean_interval(shares[by, name, step])) for by, step in columns))
        for name, (cosine, scale) in directions.items()
    ]
    title = (
        f"Decrease of the exact loss as a share of the decrease by the exact gradient, mean of {len(NETS)} nets with "
        f"its interval; first layer at depth 6, {DRAWS} draws a step. Mean cosine and median best scale before "
        f"training, of the {len(CHOOSING)} nets that also chose the rates."
    )
    return Table(
        title, ("", "cosine of the mean", "best scale", *(f"{by}, {step} steps" for by, step in columns)), rows
    )


def _remarks(rates: dict[str, float]) -> str:
    chosen = " and ".join(f"{lr:g} of {by}{_edge(lr, GRIDS[by])}" for by, lr in rates.items())
    grids = "; ".join(f"{by}: {', '.join(f'{lr:g}' for lr in grid)}" for by, grid in GRIDS.items())
    return (
        f"The learning rates are {chosen}: the smallest with which the exact gradient gets half of the largest "
        f"decrease after {STEPS} steps, over all rates and both optimizers ({grids}). The choosing nets have the seeds "
        f"{CHOOSING[0]} to {CHOOSING[-1]}, the others {NETS[0]} to {NETS[-1]}, in steps of 100."
    )


def _checks(directions: dict[str, tuple[float, float]], shares: Shares) -> list[Check]:
    right = [name for name, (cosine, _) in directions.items() if cosine > TRUE_DIRECTION]
    short = [name for name in right if directions[name][1] > 1]
    early = SHOWN[0]
    slow = _intervals({name: shares["SGD", name, early] for name in short})
    lengths = [1 / directions[name][1] for name in right]
    orders = mean_interval(
        [rank_correlation(lengths, [shares["SGD", name, early][i] for name in right]) for i in range(len(NETS))]
    )
    narrower = mean_interval(
        [0.5 * _range(shares, "SGD", right, i) - _range(shares, "Adam", right, i) for i in range(len(NETS))]
    )
    equal = {step: _intervals({name: shares["Adam", name, step] for name in right}) for step in SHOWN}
    return [
        Check(
            f"under SGD estimators whose gradient is too short are slower than the exact gradient, after {early} steps",
            "share of its decrease: " + _list_intervals(slow),
            below(slow.values(), 1),
        ),
        Check(
            f"under SGD, among estimators with the right direction (cosine above {TRUE_DIRECTION}), a longer gradient "
            "decreases the loss more",
            f"rank correlation of length and decrease after {early} steps: {words(orders)}",
            above([orders], 0),
        ),
        Check(
            "among these the range of decreases under Adam is less than half of that under SGD",
            f"half of SGD's range, minus Adam's, after {early} steps: {words(narrower)}",
            above([narrower], 0),
        ),
        *(
            Check(
                f"under Adam each of these decreases the loss as much as the exact gradient, within "
                f"{100 * MARGIN:.0f} %, after {step} steps",
                "share of its decrease: " + _list_intervals(intervals),
                within(intervals.values(), 1 - MARGIN, 1 + MARGIN),
            )
            for step, intervals in equal.items()
        ),
    ]


def _shares(curves: Tensor, exact: Tensor, step: int) -> list[float]:
    shares: list[float] = ((curves[:, 0] - curves[:, step]) / (exact[:, 0] - exact[:, step])).tolist()
    return shares


def _intervals(samples: dict[str, list[float]]) -> dict[str, Interval]:
    return {name: mean_interval(values, level=together(len(samples))) for name, values in samples.items()}


def _range(shares: Shares, by: str, names: Sequence[str], net: int) -> float:
    values = [shares[by, name, SHOWN[0]][net] for name in names]
    return max(values) - min(values)


def _list_intervals(intervals: dict[str, Interval]) -> str:
    return ", ".join(f"{name} {words(interval)}" for name, interval in intervals.items())


def _edge(lr: float, grid: Sequence[float]) -> str:
    return " (at the edge of its grid)" if lr in (min(grid), max(grid)) else ""


def _figure(curves: dict[tuple[str, str], Tensor]) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(9, 3.2))
        for axes, by in zip(figure.subplots(1, 2), OPTIMIZERS, strict=True):
            means = {name: curve.mean(0) for (optimizer, name), curve in curves.items() if optimizer == by}
            for name, mean in means.items():
                axes.plot(mean, label=name, **_line(name))
            axes.set(title=f"expected loss, mean of {len(NETS)} nets, {by}", xlabel="step")
            axes.set_ylim(min(float(mean.min()) for mean in means.values()) - 0.003, float(means[EXACT][0]) + 0.003)
        figure.subplots_adjust(left=0.06, right=0.99, top=0.9, bottom=0.33)
        figure.legend(*axes.get_legend_handles_labels(), loc="lower center", ncols=5)
    return figure


def _line(name: str) -> dict[str, Any]:
    """Returns colour, dash and width of a curve; the exact gradient's is wide and light, below the others."""
    if name == EXACT:
        return {"color": "0.8", "linewidth": 4}
    (contender,) = (contender for contender, label in figures.SHOWN.items() if label == name)
    look = figures.look_of(contender)
    return {"color": look.colour, "linestyle": look.dash, "linewidth": 1.2}
