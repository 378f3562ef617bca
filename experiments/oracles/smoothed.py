"""Exact gradients of elementwise ops under noise: each surrogate is exact for one law and a piecewise-affine loss.

d/dx E[H(x + T e)] = k(x / T) / T for noise of density k. A staircase with jumps at b_j is a sum of such steps:

- direct sum: d/dx E[round(x + T e)] = sum_n k((x - n - 1/2) / T) / T; floor with jumps at n
- series (Poisson summation): 1 + 2 sum_n (-1)^n phi(2 pi n T) cos(2 pi n x), phi the law's characteristic function,
  exp(-w^2 / 2) for the normal; floor without (-1)^n

So identity straight-through on round is exact up to 2 exp(-2 pi^2 T^2). Under uniform dither E f(round(x + u)) is f
interpolated between the integers, with the exact derivative f(n + 1) - f(n), or T[n + 1] - T[n] for a table T.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from experiments.oracles.setting import Act, Setting, normal
from surrogates.core import Op
from surrogates.kernels import KERNELS
from surrogates.ops.floor import Floor
from surrogates.ops.lookup import Lookup
from surrogates.ops.round import Round
from surrogates.ops.sign import Sign

REACH = 400  # jumps on each side in a direct sum
X = torch.linspace(-0.9, 1.1, 9, dtype=torch.float64)


def stairs_slope(x: Tensor, kernel: str, T: float, first: float) -> Tensor:
    """Computes the direct sum for jumps at first + n, n any integer; x (...) near 0."""
    jumps = first + torch.arange(-REACH, REACH + 1, dtype=x.dtype)
    return (KERNELS[kernel].density((x.unsqueeze(-1) - jumps) / T) / T).sum(-1)


def dithered_slope(x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
    """d/dx E f(round(x + u)) = f(n + 1) - f(n), n = floor(x), u uniform on (-1/2, 1/2)."""
    n = torch.floor(x)
    return f(n + 1) - f(n)


def cubic(y: Tensor) -> Tensor:
    """y^3 / 3 - y."""
    return y**3 / 3 - y


def settings() -> list[Setting]:
    """Sign under every kernel, round and floor under normal noise, dither through a cubic, a table lookup."""
    found = []
    for name, kernel in KERNELS.items():
        truth = 2 * kernel.density(X)
        found.append(_setting(f"sign, {name} noise", name, Sign(zero=1.0), X, truth, _sum, 1.0))
    for op, first in ((Round(), 0.5), (Floor(), 0.0)):
        for T in (0.25, 0.5):
            name = f"{type(op).__name__.lower()}, normal noise {T}"
            found.append(_setting(name, "normal", op, X, stairs_slope(X, "normal", T, first), _sum, T))
    truth = dithered_slope(X, cubic)
    found.append(_setting("round, dither, cubic loss", "uniform", Round(), X, truth, _cubic, 0.5))
    table = normal((6,), 40)
    x = torch.linspace(0.1, 4.9, 9, dtype=torch.float64)
    truth = table[torch.floor(x).long() + 1] - table[torch.floor(x).long()]
    entries = Lookup(low=-0.5)  # entry i for [i - 1/2, i + 1/2), as for round
    found.append(_setting("lookup, dither", "uniform", entries, x, truth, partial(_table, table), 0.5))
    return found


def _setting(
    name: str, kernel: str, op: Op, x: Tensor, truth: Tensor, loss: Callable[..., Tensor], T: float
) -> Setting:
    return Setting(name, f"{kernel} noise, scale {T}", op, x, truth, loss, kernel=kernel, scale=T)


def _sum(act: Act, rows: Tensor, _: torch.Generator) -> Tensor:
    return act(rows).sum(-1)


def _cubic(act: Act, rows: Tensor, _: torch.Generator) -> Tensor:
    return cubic(act(rows)).sum(-1)


def _table(table: Tensor, act: Act, rows: Tensor, _: torch.Generator) -> Tensor:
    return act(rows, table).sum(-1)
