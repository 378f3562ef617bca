"""Which derivative is exact for which noise and which loss: round, dither, a table, one categorical."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from experiments.oracles import categorical, smoothed
from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.setting import normal
from experiments.plotting import style

SIGMAS = (0.2, 0.25, 0.3, 0.4, 0.5, 0.7)
SPREADS, PROBLEMS = (0.25, 1.0, 4.0), 300


def answer() -> Answer:
    """The identity on round, and straight-through against ReinMax on quadratic and tanh losses."""
    x = torch.linspace(-1, 1, 401, dtype=torch.float64)
    worst = {s: float((1 - smoothed.stairs_slope(x, "normal", s, 0.5)).abs().max()) for s in SIGMAS}
    law = {s: 2 * math.exp(-2 * math.pi**2 * s**2) for s in SIGMAS}
    ratios = [worst[s] / law[s] for s in SIGMAS if s >= 0.25]
    losses = {f"tanh, weights of deviation {spread:g}": _biases(spread) for spread in SPREADS}
    losses = {"quadratic": _biases(None), **losses}
    worse = {name: float((reinmax > st).double().mean()) for name, (st, reinmax) in losses.items()}
    exact = float(losses["quadratic"][1].max())
    tanh = [share for name, share in worse.items() if name != "quadratic"]
    checks = [
        Check(
            "the identity on round has the error 2 exp(-2 pi² sigma²), from sigma = 0.25 on",
            f"{min(ratios):.3f} to {max(ratios):.3f} times that",
            all(0.95 < ratio < 1.05 for ratio in ratios),
        ),
        Check(
            "ReinMax is exact for quadratic losses", f"bias at most {exact:.1g} over {PROBLEMS} losses", exact < 1e-9
        ),
        Check(
            "with a tanh loss ReinMax is worse than straight-through",
            "worse in " + ", ".join(f"{100 * share:.0f} %" for share in tanh) + f" of {PROBLEMS} random losses",
            all(share > 0.9 for share in tanh),
            "Neither is the better one for a tanh loss: which one is better depends on the loss drawn. A single "
            "example can show either result, so two authors who find the opposite do not contradict each other. "
            "An enumeration written independently of this code gives the same result.",
        ),
    ]
    tables = [
        Table(
            "Identity on round under normal noise of sigma steps.",
            ("sigma", *(f"{s:g}" for s in SIGMAS)),
            [
                ("largest error", *(f"{v:.3g}" for v in worst.values())),
                ("leading term", *(f"{v:.3g}" for v in law.values())),
            ],
        ),
        Table(
            f"One of five categories, median bias over {PROBLEMS} random losses and logits, by enumeration.",
            ("loss", "straight-through", "ReinMax", "ReinMax worse"),
            [
                (name, f"{st.median():.3g}", f"{reinmax.median():.3g}", f"{100 * worse[name]:.0f} %")
                for name, (st, reinmax) in losses.items()
            ],
        ),
    ]
    return Answer(checks, tables, figure=_figure(x, losses))


def _biases(spread: float | None) -> tuple[Tensor, Tensor]:
    """Of straight-through and ReinMax, for random losses; None: quadratic ones."""
    found = []
    for seed in range(2000, 2000 + PROBLEMS):
        q, b, theta = normal((5, 5), seed), normal((5,), seed + 10**4), normal((5,), seed + 2 * 10**4)
        f = partial(categorical.quadratic, q=q, b=b) if spread is None else partial(categorical.tanh, w=spread * q, b=b)
        truth = categorical.exact(f, theta)
        means = (categorical.straight_through_mean(f, theta), categorical.reinmax_mean(f, theta))
        found.append(torch.stack([(mean - truth).norm() / truth.norm() for mean in means]))
    st, reinmax = torch.stack(found).T
    return st, reinmax


def _figure(x: Tensor, losses: dict[str, tuple[Tensor, Tensor]]) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(9, 3.4))
        left, right = figure.subplots(1, 2)
        for s in (0.2, 0.25, 0.3, 0.5):
            left.plot(x, smoothed.stairs_slope(x, "normal", s, 0.5), label=f"sigma = {s:g}", linewidth=1.2)
        left.axhline(1, color="black", linestyle="--", linewidth=1, label="identity")
        left.set(title="exact derivative of round under normal noise", xlabel="x")
        left.set_ylim(0, 2.9)
        left.legend(ncols=2, loc="upper center")
        name = list(losses)[2]
        st, reinmax = losses[name]
        right.plot(st, reinmax, linestyle="", marker=".", markersize=3, color="#0072B2")
        right.plot([1e-2, 10], [1e-2, 10], color="black", linewidth=0.8)
        right.set(xscale="log", yscale="log", xlabel="bias, straight-through", ylabel="bias, ReinMax", title=name)
        figure.subplots_adjust(left=0.06, right=0.99, top=0.9, bottom=0.16)
    return figure
