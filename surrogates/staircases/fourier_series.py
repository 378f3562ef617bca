"""The Fourier series of the smooth round, E[floor(x + 1/2 + T e)], by Poisson summation; large T needs few harmonics.

sin(n t) / sin(t) and cos(n t) are polynomials in cos(t), so a series takes one sine and one cosine an entry.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from surrogates.kernels import Kernel
from surrogates.known import at_hand, send

Powers = tuple[Tensor, ...]  # coefficients of the powers of cos(2 pi r), lowest first


def ripple(kernel: Kernel, read: float | None, r: Tensor, T: Tensor, harmonics: int) -> Tensor:
    """E[floor(x + 1/2 + T e)] - x = sum_n phi(2 pi n T) sin(2 pi n r) / (n pi), phi(w) = E[cos(w e)].

    r is the offset of x from the nearest step. `read` is T as a number, None if it is unknown.
    """
    sines = _polynomial(_weights(kernel, read, r, T, harmonics, cosines=False), torch.cos(2 * math.pi * r))
    return torch.sin(2 * math.pi * r) * sines


def slope(kernel: Kernel, read: float | None, r: Tensor, T: Tensor, harmonics: int) -> Tensor:
    """The derivative of the smooth round by x, 1 + 2 sum_n phi(2 pi n T) cos(2 pi n r)."""
    return _polynomial(_weights(kernel, read, r, T, harmonics, cosines=True), torch.cos(2 * math.pi * r))


def _chebyshev(first: list[float], second: list[float], count: int) -> list[list[float]]:
    """Coefficients, lowest power first, of polynomials with P_n = 2 c P_{n-1} - P_{n-2}."""
    rows = [first, second]
    while len(rows) < count:
        twice, before = [0.0] + [2 * a for a in rows[-1]], rows[-2] + [0.0, 0.0]
        rows.append([a - b for a, b in zip(twice, before, strict=False)])
    return [row + [0.0] * (count - len(row)) for row in rows[:count]]


_SINES = [
    [a / (n * math.pi) for a in row] for n, row in enumerate(_chebyshev([1.0], [0.0, 2.0], 8), start=1)
]  # sin(n t) / sin(t) / (n pi)
_COSINES = [[2 * a for a in row] for row in _chebyshev([1.0], [0.0, 1.0], 9)]  # 2 cos(n t)
_COSINES[0][0] = 1.0


def _weights(kernel: Kernel, read: float | None, r: Tensor, T: Tensor, harmonics: int, cosines: bool) -> Powers:
    if read is not None and at_hand(r):
        return _kept_weights(kernel, read, r.dtype, harmonics, cosines)
    return _series(kernel, T, harmonics, cosines)


@lru_cache(maxsize=256)
def _kept_weights(kernel: Kernel, T: float, dtype: torch.dtype, harmonics: int, cosines: bool) -> Powers:
    with torch.inference_mode(False):
        return _series(kernel, torch.tensor(T, dtype=dtype, device="cpu"), harmonics, cosines)


def _series(kernel: Kernel, T: Tensor, harmonics: int, cosines: bool) -> Powers:
    """sum_n phi(2 pi n T) p_n, p_n a row of the table; row 0 of the cosines is n = 0."""
    table = _COSINES if cosines else _SINES
    n = torch.arange(0 if cosines else 1, harmonics + 1, dtype=T.dtype, device=T.device)
    phi = kernel.characteristic((2 * math.pi) * n * T)
    rows = send([row[: len(n)] for row in table[: len(n)]], T.dtype, T.device)
    return (phi.unsqueeze(-1) * rows).sum(0).unbind(0)


def _polynomial(coefficients: Powers, c: Tensor) -> Tensor:
    """Horner's rule, lowest power first, one kernel a power."""
    *rest, total = coefficients
    for coefficient in reversed(rest):
        total = torch.addcmul(coefficient, total, c)
    return total
