"""The sorted values of a row."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, rewriting
from surrogates.kernels import KERNELS
from surrogates.known import known_finite
from surrogates.sorting.distance_sums import sorted_values, within_reach
from surrogates.sorting.networks import exact, relaxed
from surrogates.sorting.permutations import ALL, LAWS, Relaxation, from_last, neural_sort, ordered, soft_sort, to_last
from surrogates.sorting.relaxed_order import relaxed_product

FEW = 8  # so many ranks cost less as rows of the matrix than all of them without one


@dataclass(frozen=True)
class Sort(Op):
    """sort(x) = the entries along `dim` in ascending order, or in descending order.

    Shape (..., n, ...) to the same. The derivative is exact almost everywhere: each value's is that of its own entry.
    Ties: `minimum_norm` shares each value's derivative evenly among the entries that are equal to it, `first` gives the
    values to tied entries in order. Infinite entries (masks) are legal: they keep their places, with derivative 0, and
    have no part in the other values. A row with a NaN is NaN.
    proxy and smooth: P x with SoftSort's P = softmax over j of -|x_(i) - x_j| / T (Prillo & Eisenschlos 2020,
    arXiv 2006.16038); kinks at ties, where |.| has the derivative 0. Form `neural_sort`: P = softmax over j of
    ((2 i - 1 - n) x_j - sum_k |x_j - x_k|) / T (Grover et al. 2019, arXiv 1903.08850). Neither is monotone: a value may
    fall where an entry rises. Form `network`: a sorting network in which min(a, b) is F((b - a) / T) a +
    F((a - b) / T) b, F the Cauchy kernel's cdf: monotone (Petersen et al. 2022, arXiv 2203.09630); form
    `network_logistic`: F the logistic cdf, not monotone (Petersen et al. 2021, arXiv 2105.04019). Relaxations, not
    expectations. SoftSort's first derivatives take time O(n log n) and memory O(n) for float32 rows on a CPU that are
    up to 600 T wide, and n x n numbers else.
    rewrite: the network (Batcher 1968) with b - relu(b - a) and a + relu(b - a), exact up to the rounding of the larger
    magnitude; a tie leaves the order as it is.
    """

    descending: bool = False
    dim: int = -1
    elementwise: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False  # of its shape, but an output does not belong to the input at its place
    tempered_proxy: ClassVar[bool] = True
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm", "first")

    def hard(self, x: Tensor) -> Tensor:
        return self._ascending(x, lambda rows: with_nan_rows(rows.sort(dim=-1).values, rows))

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return self._ascending(x, lambda rows: ordered(rows)[0] if rule == "first" else shared(rows))

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, None, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        return self._ascending(x, lambda rows: weighted(soft_sort, rows, T))

    def smooth_neural_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """P x with NeuralSort's P."""
        return self._ascending(x, lambda rows: weighted(neural_sort, rows, T))

    def smooth_network(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """A monotone sorting network: soft swaps with the Cauchy kernel."""
        return self._ascending(x, lambda rows: relaxed(rows, KERNELS["cauchy"], T))

    def smooth_network_logistic(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """A sorting network with the logistic kernel, not monotone."""
        return self._ascending(x, lambda rows: relaxed(rows, KERNELS["logistic"], T))

    @rewriting("exact")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self._ascending(x, exact)

    def _ascending(self, x: Tensor, of_rows: Callable[[Tensor], Tensor]) -> Tensor:
        """A function of rows (..., n) in ascending order, along `dim` and in this op's order."""
        rows = to_last(x, self.dim)
        values = -of_rows(-rows) if self.descending else of_rows(rows)
        return from_last(values, self.dim)


def with_nan_rows(values: Tensor, rows: Tensor) -> Tensor:
    """Values (..., k) of rows (..., n), NaN where the row has a NaN."""
    return values.masked_fill(rows.isnan().any(-1, keepdim=True), math.nan)


def shared(rows: Tensor) -> Tensor:
    """The sorted values, each with its derivative shared evenly among the entries that are equal to it."""
    values, _ = ordered(rows)
    level = values.detach()
    group = (level[..., 1:] != level[..., :-1]).cumsum(-1)
    group = torch.cat([torch.zeros_like(level[..., :1], dtype=group.dtype), group], -1)
    zeros = torch.zeros_like(level)
    tied = zeros.scatter_add(-1, group, torch.ones_like(level)).gather(-1, group)
    means = zeros.scatter_add(-1, group, values / tied)  # divided before the sum, which could overflow
    return means.gather(-1, group)


def weighted(relaxation: Relaxation, rows: Tensor, T: Tensor | float, ranks: slice = ALL) -> Tensor:
    """A relaxed permutation's weighted entries, ascending; infinite ones at their places, with derivative 0."""
    count = len(range(rows.shape[-1])[ranks])
    if relaxation is soft_sort and count > FEW and (ascending := within_reach(rows, T)):
        values = sorted_values(rows, ascending, T)
        return values if ranks == ALL else values[..., ranks]
    if known_finite(rows):
        if law := LAWS.get(relaxation):
            return relaxed_product(law, rows, law.places(rows)[..., ranks], T)
        return (relaxation(rows, T, ranks) @ rows.unsqueeze(-1)).squeeze(-1)
    values = ordered(rows)[0][..., ranks]
    finite = torch.where(rows.isinf(), 0, rows)
    soft = (relaxation(rows, T, ranks) @ finite.unsqueeze(-1)).squeeze(-1)
    return torch.where(values.isinf(), with_nan_rows(values.detach(), rows), soft)
