"""A quantile of a row."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from surrogates.core import in_float32
from surrogates.known import known_finite
from surrogates.sorting.order_statistic import OrderStatistic, SortedValues
from surrogates.sorting.values import to_last


@dataclass(frozen=True)
class Quantile(OrderStatistic):
    """quantile(x) = (1 - w) x_(i) + w x_(i+1), i + w = q (n - 1), of the sorted entries x_(0) .. x_(n-1) along `dim`.

    Shape (..., n, ...) to (..., ...), `dim` removed; torch.quantile's linear interpolation. q = 0 is the minimum, 1 the
    maximum. The derivative is exact almost everywhere: 1 - w and w for the two entries. Ties: `minimum_norm` shares
    each one's evenly among the entries that are equal to it, `first` gives the places to tied entries in order.
    Infinite entries (masks) are legal; a place between a finite and an infinite entry is infinite, one between the two
    infinities takes the nearer, the lower in the middle. A row with a NaN is NaN.
    proxy and smooth: the same of the smooth sort's values (SoftSort; forms `neural_sort` and `network` as for sort, the
    last one monotone). rewrite: the same of the sorting network's values, exact up to the rounding of the larger
    magnitude.
    Raises ValueError for q outside [0, 1], IndexError for an empty row.
    """

    q: float = 0.5
    dim: int = -1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.q <= 1:
            raise ValueError(f"q must be between 0 and 1, got {self.q}")

    def hard(self, x: Tensor) -> Tensor:
        return in_float32(super().hard, x)

    def from_sorted(self, x: Tensor, sort: SortedValues) -> Tensor:
        n = x.shape[self.dim]
        if n == 0:
            raise IndexError("a quantile of a row needs an entry in it, it has none")
        place = self.q * (n - 1)
        lower = math.floor(place)
        neighbours = sort(to_last(x, self.dim), slice(lower, lower + 2)).unbind(-1)
        return between(neighbours[0], neighbours[-1], place - lower)


def between(a: Tensor, b: Tensor, w: float) -> Tensor:
    """(1 - w) a + w b, from the nearer end; infinite where one of them is and has a part in it."""
    if w == 0:
        return a
    near, far, share = (a, b, w) if w <= 0.5 else (b, a, 1 - w)
    if known_finite(a, b):
        return near + share * (far - near)
    infinite = a.isinf() | b.isinf()
    mixed = near + share * (torch.where(infinite, 0, far) - torch.where(infinite, 0, near))
    return torch.where(infinite, torch.where(near.isinf(), near, far), mixed)
