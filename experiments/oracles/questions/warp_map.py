"""Whether an estimator for rounded weights is straight-through in other coordinates, and where that ends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.intervals import Interval, mean_interval, together
from experiments.oracles.verdicts import above, below, words
from experiments.oracles.warp import Cell, Regression, Rule, agreement, straight_through
from experiments.plotting import COLOURS, style

RATES, TIME = (10.0, 2.0, 0.4, 0.08), 400.0  # learning rates; rate times steps
ADAM_RATES, ADAM_TIME, MEMORIES = (1e-2, 2e-3, 4e-4), 1.0, (0.999, 0.95)
NETS, SEED = 10, 82

Shares = list[Tensor]  # by rate, one share for each net


def answer() -> Answer:
    """Gradient descent over learning rates, plain and warped; Adam, unwarped, over rates and memories."""
    net = Regression(Cell())
    w = net.start(SEED, NETS)
    warped, plain, idle, last = [], [], [], (w, w)
    for lr in RATES:
        steps, sgd = round(TIME / lr), partial(torch.optim.SGD, lr=lr)
        periodic = net.train(w, sgd, steps, _periodic(net.cell))
        other = net.train(net.cell.warp(w), partial(torch.optim.SGD, lr=lr * net.cell.rate), steps, straight_through)
        warped.append(agreement(periodic, other))
        plain.append(agreement(periodic, net.train(w, sgd, steps, straight_through)))
        idle.append(agreement(periodic, torch.cat([net.cell.rounded(w), w[:, :1]], -1).expand_as(periodic)))
        last = (periodic[-1, 0, :-1], other[-1, 0, :-1])
    adam = {memory: [_adam(net, w, lr, memory) for lr in ADAM_RATES] for memory in MEMORIES}
    remarks = (
        f"{NETS} nets, each with its own weights, samples and teacher (seeds 80 to {SEED}), full batches, float64. A "
        "share is a mean over the second half of training and over nets, with its interval. The result is about "
        "rounded weights under a derivative that is positive everywhere. It says nothing about activations."
    )
    by_map = {"warped": warped, "unwarped": plain, "weights at the start": idle}
    by_memory = {f"beta2 = {memory:g}": shares for memory, shares in adam.items()}
    tables = [
        _table("Share of equal rounded weights, gradient descent.", RATES, by_map),
        _table("The same, Adam, unwarped.", ADAM_RATES, by_memory),
    ]
    return Answer(_checks(warped, plain, adam), tables, remarks, _figure(warped, plain, last))


def _checks(warped: Shares, plain: Shares, adam: dict[float, Shares]) -> list[Check]:
    level = together(len(RATES) - 1)
    growth = [mean_interval((b - a).tolist(), level=level) for a, b in pairwise(warped)]
    most = [mean_interval(shares.tolist(), level=together(len(RATES))) for shares in plain]
    gain = _interval(adam[0.95][-1] - adam[0.999][-1])
    return [
        Check(
            "with the warp, agreement grows with each fall of the learning rate",
            ", ".join(f"{words(more, '+.3f')} to {lr:g}" for more, lr in zip(growth, RATES[1:], strict=True)),
            above(growth, 0),
        ),
        Check(
            "without the warp, fewer than 40 % of the rounded weights agree, at every rate",
            ", ".join(f"{words(share)} at {lr:g}" for share, lr in zip(most, RATES, strict=True)),
            below(most, 0.4),
            "Some of these weights agree because they never leave their first rounding cell; the table's last row has"
            " their share.",
        ),
        Check(
            "Adam needs no warp where its memory is short compared with the time in a cell: at the smallest rate more"
            " weights agree with beta2 = 0.95 than with 0.999",
            f"difference of shares {words(gain)}",
            above([gain], 0),
        ),
    ]


def _interval(shares: Tensor) -> Interval:
    return mean_interval(shares.tolist())


def _table(title: str, rates: Sequence[float], rows: dict[str, Shares]) -> Table:
    cells = [(name, *(words(_interval(share)) for share in shares)) for name, shares in rows.items()]
    return Table(title, ("rate", *(f"{lr:g}" for lr in rates)), cells)


def _periodic(cell: Cell) -> Rule:
    return lambda w, g: g * cell.slope(w)


def _adam(net: Regression, w: Tensor, lr: float, memory: float) -> Tensor:
    steps, adam = round(ADAM_TIME / lr), partial(torch.optim.Adam, lr=lr, betas=(0.9, memory))
    return agreement(net.train(w, adam, steps, _periodic(net.cell)), net.train(w, adam, steps, straight_through))


def _figure(warped: Shares, plain: Shares, last: tuple[Tensor, Tensor]) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(9, 3.2))
        left, right = figure.subplots(1, 2)
        for name, shares, colour, marker in (("warped", warped, COLOURS[0], "o"), ("unwarped", plain, COLOURS[1], "s")):
            intervals = [_interval(share) for share in shares]
            left.errorbar(RATES, [i.mean for i in intervals], [i.high - i.mean for i in intervals], marker=marker,
                          color=colour, label=name, elinewidth=0.8)  # fmt: skip
        left.set(xscale="log", xlabel="learning rate", title="share of equal rounded weights", ylim=(0, 1.03))
        left.legend()
        right.plot(*last, linestyle="", marker=".", color=COLOURS[0])
        right.set(
            title=f"rounded weights at rate {RATES[-1]:g}, first net",
            xlabel="periodic derivative",
            ylabel="warped straight-through",
        )
        figure.subplots_adjust(left=0.06, right=0.99, top=0.9, bottom=0.16)
    return figure
