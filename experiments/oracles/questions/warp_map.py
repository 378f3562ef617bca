"""Whether an estimator for rounded weights is straight-through in other coordinates, and where that ends."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.warp import Cell, Regression, Rule, agreement, straight_through
from experiments.plotting import COLOURS, style

RATES, TIME = (10.0, 2.0, 0.4, 0.08), 400.0  # learning rates; rate times steps
ADAM_RATES, ADAM_TIME = (1e-2, 2e-3, 4e-4), 1.0


def answer() -> Answer:
    """Gradient descent over learning rates, plain and warped; Adam, unwarped, over rates and memories."""
    net = Regression(Cell())
    w = net.start(82)
    warped, plain, idle, last = [], [], [], (w, w)
    for lr in RATES:
        steps, sgd = round(TIME / lr), partial(torch.optim.SGD, lr=lr)
        periodic = net.train(w, sgd, steps, _periodic(net.cell))
        other = net.train(net.cell.warp(w), partial(torch.optim.SGD, lr=lr * net.cell.rate), steps, straight_through)
        warped.append(agreement(periodic, other))
        plain.append(agreement(periodic, net.train(w, sgd, steps, straight_through)))
        idle.append(agreement(periodic, torch.cat([net.cell.rounded(w), w[:1]]).expand_as(periodic)))
        last = (periodic[-1, :-1], other[-1, :-1])
    adam = {memory: [_adam(net, w, lr, memory) for lr in ADAM_RATES] for memory in (0.999, 0.95)}
    checks = [
        Check(
            "with the warp, agreement grows as the learning rate falls",
            _words(warped, RATES),
            warped[-1] > 0.8 and warped[-1] > warped[0],
        ),
        Check(
            "without the warp, fewer than 40 % of the rounded weights agree",
            _words(plain, RATES),
            max(plain) < 0.4,
            "Some of these weights agree because they never leave their first rounding cell; the table's last row has"
            " their share.",
        ),
        Check(
            "Adam needs no warp where its memory is short compared with the time in a cell: at the smallest rate more"
            " weights agree with beta2 = 0.95 than with 0.999",
            f"{adam[0.95][-1]:.2f} against {adam[0.999][-1]:.2f}",
            adam[0.95][-1] > adam[0.999][-1] + 0.1,
        ),
    ]
    tables = [
        Table("Share of equal rounded weights, gradient descent.", ("rate", *(f"{r:g}" for r in RATES)),
              [("warped", *map(_two, warped)), ("unwarped", *map(_two, plain)),
               ("weights at the start", *map(_two, idle))]),
        Table("The same, Adam, unwarped.", ("rate", *(f"{r:g}" for r in ADAM_RATES)),
              [(f"beta2 = {memory:g}", *map(_two, values)) for memory, values in adam.items()]),
    ]  # fmt: skip
    remarks = (
        "One net, full batches, float64; each share is a mean over the second half of training. The result is about "
        "rounded weights under a derivative that is positive everywhere. It says nothing about activations."
    )
    return Answer(checks, tables, remarks, _figure(warped, plain, last))


def _periodic(cell: Cell) -> Rule:
    return lambda w, g: g * cell.slope(w)


def _adam(net: Regression, w: Tensor, lr: float, memory: float) -> float:
    steps, adam = round(ADAM_TIME / lr), partial(torch.optim.Adam, lr=lr, betas=(0.9, memory))
    return agreement(net.train(w, adam, steps, _periodic(net.cell)), net.train(w, adam, steps, straight_through))


def _two(value: float) -> str:
    return f"{value:.2f}"


def _words(values: list[float], rates: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.2f} at {rate:g}" for value, rate in zip(values, rates, strict=True))


def _figure(warped: list[float], plain: list[float], last: tuple[Tensor, Tensor]) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(9, 3.2))
        left, right = figure.subplots(1, 2)
        left.plot(RATES, warped, marker="o", color=COLOURS[0], label="warped")
        left.plot(RATES, plain, marker="s", color=COLOURS[1], label="unwarped")
        left.set(xscale="log", xlabel="learning rate", title="share of equal rounded weights", ylim=(0, 1.03))
        left.legend()
        right.plot(*last, linestyle="", marker=".", color=COLOURS[0])
        right.set(
            title=f"rounded weights at rate {RATES[-1]:g}",
            xlabel="periodic derivative",
            ylabel="warped straight-through",
        )
        figure.subplots_adjust(left=0.06, right=0.99, top=0.9, bottom=0.16)
    return figure
