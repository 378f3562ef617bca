"""The order of a row's entries, as a permutation matrix."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from surrogates.core import Op, flat, rewriting
from surrogates.float32 import require_count
from surrogates.sorting.permutations import (
    Relaxation,
    exact_matrix,
    network,
    network_logistic,
    neural_sort,
    soft_sort,
)
from surrogates.sorting.values import ordered, to_last


@dataclass(frozen=True)
class Permutation(Op):
    """permutation(x) = the matrix P, P[i, j] = 1 where entry j has rank i, else 0; P x is x in ascending order.

    Shape (..., n, ...) to (..., n, n, ...): `dim` becomes two, ranks and entries. Every rank and every entry has
    exactly one 1; tied entries stay in their order. A row with a NaN is NaN.
    With `k` only the first k ranks: shape (..., k, n, ...), in memory O(k n) but for the networks.
    The derivative is 0 by definition at the jumps, and 0 everywhere else. torch's own argsort has no graph.
    Entries may be infinite (masks): their ranks have the hard weights, with derivative 0, and their weights at the
    other ranks are 0.
    proxy and smooth: SoftSort, softmax over j of -|x_(i) - x_j| / T (Prillo & Eisenschlos 2020, arXiv 2006.16038).
    Kinks at ties, where |.| has the derivative 0.
    Form `neural_sort`: softmax over j of ((2 i - 1 - n) x_j - sum_k |x_j - x_k|) / T (Grover et al. 2019, arXiv
    1903.08850). In both, the weights of a rank sum to 1; those of an entry need not.
    Form `network`: the product of a sorting network's soft swaps with the Cauchy cdf (Petersen et al. 2022, arXiv
    2203.09630). Form `network_logistic`: with the logistic cdf (Petersen et al. 2021, arXiv 2105.04019). Both are
    doubly stochastic.
    All are relaxations, not expectations. Memory O(n^2); the networks' time is O(n^2 log^2 n).
    rewrite: permutation(x) * smooth(x) at T = 1, each entry weighted by its own probability, as for argmax; changes the
    objective.
    Raises ValueError if k is below 1.
    """

    descending: bool = False
    dim: int = -1
    k: int | None = None
    elementwise: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is not None:
            require_count(k=self.k)

    def hard(self, x: Tensor) -> Tensor:
        rows = self._rows(x.detach())
        return self._to_dim(exact_matrix(ordered(rows)[1][..., : self.k], rows))

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        rows = flat(self._rows(x))
        ranks = len(range(rows.shape[-1])[: self.k])
        return self._to_dim(rows.unsqueeze(-2).expand(*rows.shape[:-1], ranks, rows.shape[-1]))

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, None, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        return self._apply_relaxation(soft_sort, x, T)

    def smooth_neural_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """NeuralSort."""
        return self._apply_relaxation(neural_sort, x, T)

    def smooth_network(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """A sorting network's soft swaps with the Cauchy kernel."""
        return self._apply_relaxation(network, x, T)

    def smooth_network_logistic(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """A sorting network's soft swaps with the logistic kernel."""
        return self._apply_relaxation(network_logistic, x, T)

    @rewriting("changes the objective")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self.hard(x) * self.smooth(x, None, 1.0)

    def _apply_relaxation(self, relaxation: Relaxation, x: Tensor, T: Tensor | float) -> Tensor:
        return self._to_dim(relaxation(self._rows(x), T, slice(self.k)))

    def _rows(self, x: Tensor) -> Tensor:
        rows = to_last(x, self.dim)
        return -rows if self.descending else rows

    def _to_dim(self, matrix: Tensor) -> Tensor:
        """Moves the last two dimensions of a matrix to where `dim` was."""
        if self.dim == -1:
            return matrix
        place = self.dim % (matrix.dim() - 1)
        return matrix.movedim((-2, -1), (place, place + 1))
