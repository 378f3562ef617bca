"""How often the maximum of a window is tied, by bits, and what torch's names for one function do at its kink."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.data.digits import Digits
from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.intervals import share_interval, together
from experiments.oracles.setting import normal
from experiments.oracles.verdicts import within, words
from experiments.plotting import COLOURS, style
from surrogates.kernels import Normal
from surrogates.ops.round import Round

BITS = (1, 2, 3, 4, 8)
WINDOWS, SEED = 200_000, 700
MARGIN = 0.005
TOP = 3.0  # noise is clipped to [0, TOP]


def answer() -> Answer:
    """Windows of two by two and three by three; quantised noise and quantised digits."""
    predicted = {n: [tied_chance(bits, n) for bits in BITS] for n in (4, 9)}
    measured = {n: [_tie_share(quantise(normal((WINDOWS, n), SEED + n), bits)) for bits in BITS] for n in (4, 9)}
    images = Digits().load().train.x[:, 0].double()
    pixels = [_tie_share(F.unfold(_levels(images, bits).unsqueeze(1), 2, stride=2).mT.reshape(-1, 4)) for bits in BITS]
    kink = {name: _slope_at_zero(f) for name, f in _SAME.items()}
    checks = [
        *_check_rates(predicted, measured),
        Check("torch's functions for max(x, 0) have different derivatives at 0: 0, 1/2 and 1",
              ", ".join(f"{name} {slope:g}" for name, slope in kink.items()) + f" (torch {torch.__version__})",
              sorted(kink.values()) == [0, 0.5, 1],
              "The derivative of `clamp` at its bounds has changed: 1 in torch 2.13, 0 in 2.14 (see kinks.md)."),
    ]  # fmt: skip
    rows = [
        (f"noise, {'two by two' if n == 4 else 'three by three'}, {kind}", *(f"{v:.3f}" for v in values[n]))
        for n in (4, 9)
        for kind, values in (("predicted", predicted), ("measured", measured))
    ]
    rows.append(("digits, two by two, measured", *(f"{v:.3f}" for v in pixels)))
    remarks = (
        "Noise is max(z, 0) of a normal z, clipped at 3 and rounded; the rates depend on that range. Its seeds are "
        f"{SEED + 4} and {SEED + 9}. Real images are tied far more often where they are flat. Whether the rule at ties "
        "changes a training is not measured here."
    )
    table = Table("Share of windows with a tied maximum.", ("bits", *map(str, BITS)), rows)
    return Answer(checks, [table], remarks, _figure(predicted, measured, pixels))


def _check_rates(predicted: dict[int, list[float]], measured: dict[int, list[float]]) -> list[Check]:
    pairs = [(a, b) for n in predicted for a, b in zip(predicted[n], measured[n], strict=True)]
    level = together(len(pairs))
    off = [share_interval(round(share * WINDOWS), WINDOWS, level).moved(formula) for formula, share in pairs]
    farthest = max(off, key=lambda i: abs(i.mean))
    rate = share_interval(round(measured[4][BITS.index(2)] * WINDOWS), WINDOWS)
    return [
        Check(
            f"the tie rates of noise are those of the formula, within {MARGIN:g}",
            f"largest difference {words(farthest, '+.4f')}",
            within(off, -MARGIN, MARGIN),
        ),
        Check(
            f"at 2 bits the maximum of a two by two window is tied in 46 % of windows, within {100 * MARGIN:g} points",
            words(rate, ".4f"),
            within([rate], 0.46 - MARGIN, 0.46 + MARGIN),
        ),
    ]


def quantise(z: Tensor, bits: int) -> Tensor:
    """Levels 0 .. 2^bits - 1 of z clipped to [0, TOP]."""
    return _levels(z.clamp(0, TOP) / TOP, bits)


def tied_chance(bits: int, n: int) -> float:
    """P(the maximum of n is tied) = 1 - n sum_v P(v) P(less than v)^(n - 1), for `quantised` standard normal z."""
    top = 2**bits - 1
    ends = Normal().cdf((torch.arange(top, dtype=torch.float64) + 0.5) * TOP / top)
    below = torch.cat([torch.zeros(1, dtype=torch.float64), ends, torch.ones(1, dtype=torch.float64)])
    return float(1 - n * (below.diff() * below[:-1] ** (n - 1)).sum())


def _levels(x: Tensor, bits: int) -> Tensor:
    return Round().hard(x * (2**bits - 1))


def _tie_share(windows: Tensor) -> float:
    return float(((windows == windows.amax(1, keepdim=True)).sum(1) > 1).double().mean())


_SAME = {
    "relu": torch.relu,
    "maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "clamp": lambda x: x.clamp(min=0),
}


def _slope_at_zero(f: Any) -> float:
    x = torch.zeros((), requires_grad=True)
    return float(torch.autograd.grad(f(x), x)[0])


def _figure(predicted: dict[int, list[float]], measured: dict[int, list[float]], pixels: list[float]) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(5, 3.2))
        axes = figure.subplots()
        for n, colour in ((4, COLOURS[0]), (9, COLOURS[1])):
            side = "two by two" if n == 4 else "three by three"
            axes.plot(BITS, predicted[n], color=colour, label=f"noise, {side}, predicted")
            axes.plot(BITS, measured[n], color=colour, linestyle="", marker="o", label=f"noise, {side}, measured")
        axes.plot(BITS, pixels, color=COLOURS[2], marker="^", label="digits, two by two")
        axes.set(title="share of windows with a tied maximum", xlabel="bits", ylim=(0, 1.02))
        axes.legend(fontsize=7)
        figure.subplots_adjust(left=0.1, right=0.98, top=0.9, bottom=0.15)
    return figure
