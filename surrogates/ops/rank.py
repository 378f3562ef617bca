"""The ranks of a row's entries."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, flat, rewriting
from surrogates.known import known_finite
from surrogates.ops.sort import with_nan_rows
from surrogates.sorting.distance_sums import received, within_reach
from surrogates.sorting.permutations import ALL, LAWS, Relaxation, from_last, network, neural_sort, soft_sort, to_last
from surrogates.sorting.relaxed_order import relaxed_product


@dataclass(frozen=True)
class Rank(Op):
    """rank(x) = 1 + number of smaller entries along `dim`, or of larger ones if `descending`.

    Shape (..., n, ...) to the same. Tied entries have the same, the smallest rank, as in sports. The derivative is 0 by
    definition at the jumps and almost everywhere else; comparisons have no graph at all. Infinite entries (masks) are
    legal and take their hard rank, with derivative 0. A row with a NaN is NaN. Half precision rounds ranks above 256
    (bfloat16) or 2048 (float16).
    proxy and smooth: 1/2 + sum_j sigmoid((x_i - x_j) / T), the exact expectation of rank(x + T g) for centred Gumbel g;
    for tied entries it tends to the mean of their places. Forms `soft_sort`, `neural_sort`, `network`: the mean of the
    ranks i weighted by P_ij / sum_k P_kj, P the relaxed permutation of that name; relaxations, not expectations.
    SoftSort's costs what its sort does.
    rewrite: the smooth reading at T = 1, the pairwise sum of Qin, Liu & Li 2010 (ApproxNDCG); relaxed.
    """

    descending: bool = False
    dim: int = -1
    elementwise: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False  # of its shape, but an output's slope by the input at its place is no 1
    tempered_proxy: ClassVar[bool] = True

    def hard(self, x: Tensor) -> Tensor:
        return self._of_rows(x.detach(), ranks)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return flat(x)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, None, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        return self._of_rows(x, lambda rows: pairwise(rows, T))

    def smooth_soft_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The mean rank under SoftSort's weights."""
        return self._of_rows(x, lambda rows: mean_rank(soft_sort, rows, T))

    def smooth_neural_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The mean rank under NeuralSort's weights."""
        return self._of_rows(x, lambda rows: mean_rank(neural_sort, rows, T))

    def smooth_network(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The mean rank in a sorting network with the Cauchy kernel."""
        return self._of_rows(x, lambda rows: mean_rank(network, rows, T))

    @rewriting("relaxed")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self.smooth(x, None, 1.0)

    def _of_rows(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        rows = to_last(x, self.dim)
        return from_last(function(-rows if self.descending else rows), self.dim)


def ranks(rows: Tensor) -> Tensor:
    """1 + number of smaller entries."""
    smaller = (rows.unsqueeze(-1) > rows.unsqueeze(-2)).sum(-1)
    return with_nan_rows((1 + smaller).to(rows.dtype), rows)


def pairwise(rows: Tensor, T: Tensor | float) -> Tensor:
    """The expected rank; the pair of an entry with itself is the 1/2 too much."""
    own = torch.where(rows.isinf(), 0, rows)
    soft = 0.5 + torch.sigmoid((own.unsqueeze(-1) - rows.unsqueeze(-2)) / T).sum(-1)
    return torch.where(rows.isinf(), ranks(rows.detach()), soft)


def mean_rank(relaxation: Relaxation, rows: Tensor, T: Tensor | float) -> Tensor:
    """The ranks 1 .. n weighted by a relaxed permutation, whose columns need not sum to 1."""
    places = torch.arange(1, rows.shape[-1] + 1, dtype=rows.dtype, device=rows.device)
    factor = torch.stack([places, torch.ones_like(places)])
    if relaxation is soft_sort and (ascending := within_reach(rows, T)):
        weighted, total = received(rows, ascending, T, factor).unbind(-2)
        return weighted / total
    if (law := LAWS.get(relaxation)) and known_finite(rows):
        weighted, total = relaxed_product(law, rows, law.places(rows), T, factor).unbind(-2)
        return weighted / total
    weights = relaxation(rows, T, ALL)
    soft = (weights * places.unsqueeze(-1)).sum(-2) / weights.sum(-2)
    return torch.where(rows.isinf(), ranks(rows.detach()), soft)
