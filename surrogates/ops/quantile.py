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
    maximum. A row with a NaN is NaN.
    The derivative is exact almost everywhere: 1 - w and w for the two entries. Ties: `minimum_norm` shares the
    derivative of each evenly among the entries equal to it; `first` follows a stable sort.
    Entries may be infinite (masks). Between a finite and an infinite entry the value is infinite. Between the two
    infinities it is the nearer, in the middle the lower.
    proxy and smooth: the same of the smooth sort's values (SoftSort; forms `neural_sort` and `network` as for sort, the
    last monotone).
    rewrite: the same of the sorting network's values, exact up to the rounding of the larger magnitude.
    Raises ValueError if q is outside [0, 1].
    Raises IndexError if a row is empty.
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
            raise IndexError("a quantile needs rows of at least one entry, got an empty row")
        place = self.q * (n - 1)
        lower = math.floor(place)
        neighbours = sort(to_last(x, self.dim), slice(lower, lower + 2)).unbind(-1)
        return between(neighbours[0], neighbours[-1], place - lower)


def between(a: Tensor, b: Tensor, w: float) -> Tensor:
    """(1 - w) a + w b, from the nearer end; infinite if an end with a weight above 0 is."""
    if w == 0:
        return a
    near, far, share = (a, b, w) if w <= 0.5 else (b, a, 1 - w)
    if known_finite(a, b):
        return near + share * (far - near)
    infinite = a.isinf() | b.isinf()
    mixed = near + share * (torch.where(infinite, 0, far) - torch.where(infinite, 0, near))
    return torch.where(infinite, torch.where(near.isinf(), near, far), mixed)
