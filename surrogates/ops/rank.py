"""The ranks of a row's entries."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, flat, rewriting
from surrogates.sorting.permutations import network, neural_sort, soft_sort
from surrogates.sorting.soft_values import mean_ranks
from surrogates.sorting.values import from_last, hard_ranks, to_last, without_infinity


@dataclass(frozen=True)
class Rank(Op):
    """rank(x) = 1 + number of smaller entries along `dim`, or of larger ones if `descending`.

    Shape (..., n, ...) to the same. Tied entries all have the smallest of their ranks, as in sports. A row with a NaN
    is NaN. Half precision rounds ranks above 256 (bfloat16) or 2048 (float16).
    The derivative is 0 by definition at the jumps, and 0 everywhere else. torch's own comparisons have no graph.
    Entries may be infinite (masks): they have their hard rank, with derivative 0.
    proxy and smooth: 1/2 + sum_j sigmoid((x_i - x_j) / T), the exact expectation of rank(x + T g) for centred Gumbel g.
    For tied entries it tends to the mean of their places.
    Forms `soft_sort`, `neural_sort`, `network`: the mean of the ranks i weighted by P_ij / sum_k P_kj, P the relaxed
    permutation of that name. These are relaxations, not expectations. SoftSort's form costs as much as its sort.
    rewrite: the smooth reading at T = 1, the pairwise sum of Qin, Liu & Li 2010 (ApproxNDCG); relaxed.
    """

    descending: bool = False
    dim: int = -1
    elementwise: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False  # x's shape, but the slope by the input at an output's place is not 1
    tempered_proxy: ClassVar[bool] = True

    def hard(self, x: Tensor) -> Tensor:
        return self._of_rows(x.detach(), hard_ranks)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return flat(x)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, None, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        return self._of_rows(x, lambda rows: pairwise(rows, T))

    def smooth_soft_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The mean rank under SoftSort's weights."""
        return self._of_rows(x, lambda rows: mean_ranks(soft_sort, rows, T))

    def smooth_neural_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The mean rank under NeuralSort's weights."""
        return self._of_rows(x, lambda rows: mean_ranks(neural_sort, rows, T))

    def smooth_network(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The mean rank in a sorting network with the Cauchy kernel."""
        return self._of_rows(x, lambda rows: mean_ranks(network, rows, T))

    @rewriting("relaxed")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self.smooth(x, None, 1.0)

    def _of_rows(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        rows = to_last(x, self.dim)
        return from_last(function(-rows if self.descending else rows), self.dim)


def pairwise(rows: Tensor, T: Tensor | float) -> Tensor:
    """The expected rank. An entry's pair with itself adds 1/2 to the 1/2."""
    own = without_infinity(rows)
    soft = 0.5 + torch.sigmoid((own.unsqueeze(-1) - rows.unsqueeze(-2)) / T).sum(-1)
    return torch.where(rows.isinf(), hard_ranks(rows), soft)
