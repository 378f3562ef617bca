"""Values from a table, by the floor of an index."""

import math
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, flat, rewriting
from surrogates.float32 import require_count
from surrogates.kernels import Kernel
from surrogates.staircases.mixture import mixture, shares
from surrogates.staircases.steps import Steps


@dataclass(frozen=True)
class Lookup(Op):
    """lookup(x, table) = table[i], i = floor((x - low) / step), held between the first and the last entry.

    x (...) and a table (n,) give (...). With `dims` = d > 1, x (..., d) and a table (n_1, ..., n_d) give (...), one
    index a coordinate. Entry i covers [low + i step, low + (i + 1) step); the first and the last entry cover everything
    beyond. NaN in x gives NaN there, NaN in the table everywhere.
    Jumps at those bounds. The derivative by x is 0 there by definition, and 0 everywhere else. Under every strategy
    with a hard value, the derivative by the table goes to the entry that was looked up.
    proxy: the sum of x's coordinates (identity straight-through), plus the looked-up entry.
    smooth: E[lookup(x + T e, table)], e independent for each coordinate, every kernel: the entries weighted by their
    probabilities.
    rewrite: linear (in d dimensions multilinear) interpolation between the entries at their cells' middles, constant
    beyond the outer middles; relaxed. It is the smooth reading under the uniform kernel at T = step / 2. At a middle
    the slope is the one to its right, at the last middle the one to its left.
    Raises ValueError if dims is below 1, step is not positive, or the inputs do not fit `dims`.
    Raises IndexError if the table is empty.
    """

    step: float = 1.0
    low: float = 0.0
    dims: int = 1
    keeps_shape: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.step > 0 and math.isfinite(self.step)):
            raise ValueError(f"step must be positive and finite, got {self.step}")
        if not math.isfinite(self.low):
            raise ValueError(f"low must be finite, got {self.low}")
        require_count(dims=self.dims)

    def hard(self, x: Tensor, table: Tensor) -> Tensor:
        entry = self._entry(x, table).to(x.dtype)
        return entry.masked_fill(self._coordinates(x).isnan().any(-1) | table.isnan().any(), math.nan)

    def subgradient(self, x: Tensor, table: Tensor, rule: str) -> Tensor:
        return self._entry(x, table) + self._coordinates(flat(x)).sum(-1)

    def proxy(self, x: Tensor, table: Tensor, T: Tensor | float) -> Tensor:
        return self._entry(x, table) + self._coordinates(x).sum(-1)

    def smooth(self, x: Tensor, table: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        if self.dims == 1:
            return mixture(x, table, kernel, T, self.low, self.step)
        mixed = table
        for dim in reversed(range(self.dims)):
            shares = self._shares(self._coordinates(x)[..., dim], table.shape[dim], kernel, T)
            mixed = (mixed * shares[(..., *[None] * dim, slice(None))]).sum(-1)
        return mixed

    @rewriting("relaxed")
    def rewrite(self, x: Tensor, table: Tensor, noise: None = None) -> Tensor:
        corners, weights = [], []
        for place, n in zip(self._coordinates(self._place(x) - 0.5).unbind(-1), table.shape, strict=True):
            held = torch.where(place < 0, 0, torch.where(place > n - 1, n - 1, place))
            left = _whole(held, max(n - 2, 0))
            corners.append((left, (left + 1).clamp(max=n - 1)))
            weights.append((1 - (held - left), held - left))
        total = torch.zeros_like(weights[0][0])
        for corner in product((0, 1), repeat=self.dims):
            index = [both[side] for both, side in zip(corners, corner, strict=True)]
            share = torch.stack([both[side] for both, side in zip(weights, corner, strict=True)]).prod(0)
            total = total + share * _entries_at(table, index)
        return total.masked_fill(table.isnan().any(), math.nan)

    def _place(self, x: Tensor) -> Tensor:
        return (x - self.low) / self.step

    def _coordinates(self, x: Tensor) -> Tensor:
        """(...) to (..., 1) for a table of one dimension."""
        return x.unsqueeze(-1) if self.dims == 1 else x

    def _entry(self, x: Tensor, table: Tensor) -> Tensor:
        if table.dim() != self.dims or (self.dims > 1 and x.shape[-1:] != (self.dims,)):
            raise ValueError(
                f"dims={self.dims} needs x (..., {self.dims}) and a table of {self.dims} dimensions, "
                f"got {tuple(x.shape)} and {tuple(table.shape)}"
            )
        if not table.numel():
            raise IndexError(f"the table must have at least one entry, its shape is {tuple(table.shape)}")
        wide = x.detach().to(torch.promote_types(x.dtype, torch.float32))
        places = self._coordinates(self._place(wide)).unbind(-1)
        return _entries_at(table, [_whole(place, n - 1) for place, n in zip(places, table.shape, strict=True)])

    def _shares(self, x: Tensor, n: int, kernel: Kernel, T: Tensor | float) -> Tensor:
        """The probability of each of n entries, (..., n)."""
        return shares(x.unsqueeze(-1), T, Steps(kernel, self.low + self.step, self.step, n - 1, n - 1))


def _whole(place: Tensor, last: int) -> Tensor:
    """The floor as an index between 0 and `last`; NaN is 0."""
    return place.detach().nan_to_num(nan=0.0, posinf=last, neginf=0.0).clamp(0, last).long()


def _entries_at(table: Tensor, index: list[Tensor]) -> Tensor:
    """The entries of a table at indices by dimension."""
    at = index[0]
    for i, n in zip(index[1:], table.shape[1:], strict=True):
        at = at * n + i
    return table.flatten().index_select(0, at.flatten()).reshape(at.shape)
