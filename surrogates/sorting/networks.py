"""Sorting networks: fixed layers of comparisons of two wires, exact or relaxed, for ascending rows (..., n)."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from surrogates.carriers import flat
from surrogates.kernels import Kernel
from surrogates.known import send

Layer = tuple[list[int], list[int]]


@cache
def layers(n: int) -> tuple[Layer, ...]:
    """Batcher's odd-even merge sort for n wires: O(log^2 n) layers, each of disjoint pairs (lower, upper wire)."""
    found = []
    merged = 1
    while merged < n:
        reach = merged
        while reach >= 1:
            starts = range(reach % merged, n - reach, 2 * reach)
            lower = [i + j for j in starts for i in range(min(reach, n - j - reach))]
            lower = [i for i in lower if i // (2 * merged) == (i + reach) // (2 * merged)]
            if lower:
                found.append((lower, [i + reach for i in lower]))
            reach //= 2
        merged *= 2
    return tuple(found)


def exact(rows: Tensor) -> Tensor:
    """The sorted values by exact swaps; tied entries stay in their order."""
    rows = _without_infinite_slopes(rows)
    for lower, upper in layers(rows.shape[-1]):
        a, b = _wires(rows, lower), _wires(rows, upper)
        rows = _rewire(rows, lower, upper, *exact_swap(a, b), -1)
    return rows


def exact_swap(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The smaller and the larger of a and b, by b - relu(b - a) and a + relu(b - a); infinite numbers are compared."""
    infinite, step = a.isinf() | b.isinf(), torch.relu(b - a)
    smaller = torch.where(infinite, torch.minimum(a, b), b - step)
    return smaller, torch.where(infinite, torch.maximum(a, b), a + step)


def relaxed(rows: Tensor, kernel: Kernel, T: Tensor | float, positions: bool = False) -> Tensor:
    """The network with soft swaps: the lower wire gets F((b - a) / T) a + F((a - b) / T) b, the upper one the rest.

    Returns the sorted values (..., n), or with `positions` the doubly stochastic matrix (..., n, n) that maps the rows
    to them. An infinite number is compared exactly.
    """
    n = rows.shape[-1]
    rows = _without_infinite_slopes(rows)
    wires = torch.eye(n, dtype=rows.dtype, device=rows.device) + flat(rows).unsqueeze(-1) if positions else rows
    for lower, upper in layers(n):
        a, b = _wires(rows, lower), _wires(rows, upper)
        keep = _order(a, b, kernel, T)
        values = _soft_swap(a, b, keep)
        rows = _rewire(rows, lower, upper, *values, -1)
        if positions:
            first, second = _wires(wires, lower, -2), _wires(wires, upper, -2)
            wires = _rewire(wires, lower, upper, *_soft_swap(first, second, keep.unsqueeze(-1)), -2)
        else:
            wires = rows
    return wires


def _without_infinite_slopes(rows: Tensor) -> Tensor:
    """The rows, with derivative 0 for an infinite entry."""
    return torch.where(rows.isinf(), rows.detach(), rows)


def _order(a: Tensor, b: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
    """How far a is below b, between 0 and 1; exactly 0 or 1 if one of them is infinite."""
    infinite = a.isinf() | b.isinf()
    gap = torch.where(infinite, 0, b - a)
    compared = (a <= b).to(a.dtype).masked_fill(a.isnan() | b.isnan(), torch.nan)
    return torch.where(infinite, compared, kernel.cdf(gap / T))


def _soft_swap(a: Tensor, b: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """The two mixtures; infinite numbers are compared, as 0 * inf would be NaN."""
    infinite = a.isinf() | b.isinf()
    first, second = (torch.where(infinite, 0, x) for x in (a, b))
    step = (1 - keep) * (second - first)
    lower = torch.where(infinite, torch.minimum(a, b), first + step)
    return lower, torch.where(infinite, torch.maximum(a, b), second - step)


def _wires(x: Tensor, indices: list[int], dim: int = -1) -> Tensor:
    return x.index_select(dim, send(indices, torch.long, x.device))


def _rewire(x: Tensor, lower: list[int], upper: list[int], a: Tensor, b: Tensor, dim: int) -> Tensor:
    """x with new values on two sets of wires."""
    n = x.shape[dim]
    compared = set(lower) | set(upper)
    idle = [i for i in range(n) if i not in compared]
    place = {wire: k for k, wire in enumerate([*lower, *upper, *idle])}
    parts = torch.cat([a, b, _wires(x, idle, dim)], dim)
    return _wires(parts, [place[i] for i in range(n)], dim)
