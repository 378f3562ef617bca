"""A quantile of a row."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, in_float32, rewriting
from surrogates.kernels import KERNELS
from surrogates.networks import exact, relaxed
from surrogates.ops.sort import shared, weighted, with_nan
from surrogates.permutations import neural_sort, ordered, soft_sort


@dataclass(frozen=True)
class Quantile(Op):
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
    elementwise: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm", "first")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.q <= 1:
            raise ValueError(f"q must be between 0 and 1, got {self.q}")

    def hard(self, x: Tensor) -> Tensor:
        def sort(rows: Tensor, at: slice) -> Tensor:
            return with_nan(rows.sort(dim=-1).values[..., at], rows)

        return in_float32(lambda x: self._between(x, sort), x)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return self._between(x, lambda rows, at: (ordered(rows)[0] if rule == "first" else shared(rows))[..., at])

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, None, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        return self._between(x, lambda rows, at: weighted(soft_sort, rows, T, at))

    def smooth_neural_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """Between NeuralSort's values."""
        return self._between(x, lambda rows, at: weighted(neural_sort, rows, T, at))

    def smooth_network(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """Between the monotone sorting network's values."""
        return self._between(x, lambda rows, at: relaxed(rows, KERNELS["cauchy"], T)[..., at])

    @rewriting("exact")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self._between(x, lambda rows, at: exact(rows)[..., at])

    def _between(self, x: Tensor, sort: Callable[[Tensor, slice], Tensor]) -> Tensor:
        n = x.shape[self.dim]
        if n == 0:
            raise IndexError("a quantile of a row needs an entry in it, it has none")
        place = self.q * (n - 1)
        lower = min(math.floor(place), n - 1)
        values = sort(x.movedim(self.dim, -1), slice(lower, lower + 2))
        return between(values[..., 0], values[..., -1], place - lower)


def between(a: Tensor, b: Tensor, w: float) -> Tensor:
    """(1 - w) a + w b, from the nearer end; infinite where one of them is and has a part in it."""
    if w == 0:
        return a
    infinite = a.isinf() | b.isinf()
    step = torch.where(infinite, 0, b) - torch.where(infinite, 0, a)
    near, far = (a, b) if w <= 0.5 else (b, a)
    mixed = near + (w * step if w <= 0.5 else (w - 1) * step)
    return torch.where(infinite, torch.where(near.isinf(), near, far), mixed)
