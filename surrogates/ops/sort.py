"""The sorted values of a row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from surrogates.core import Op, rewriting
from surrogates.kernels import KERNELS
from surrogates.sorting.networks import exact, relaxed
from surrogates.sorting.permutations import neural_sort, soft_sort
from surrogates.sorting.soft_values import soft_values
from surrogates.sorting.values import from_last, ordered, shared, to_last, with_nan_rows


@dataclass(frozen=True)
class Sort(Op):
    """sort(x) = the entries along `dim` in ascending order, or in descending order.

    Shape (..., n, ...) to the same. A row with a NaN is NaN.
    The derivative is exact almost everywhere: each value has that of its own entry. Ties: `minimum_norm` shares the
    derivative of a value evenly among the entries equal to it; `first` follows a stable sort.
    Entries may be infinite (masks): they keep their places, with derivative 0, and do not affect the other values.
    proxy and smooth: P x with SoftSort's P = softmax over j of -|x_(i) - x_j| / T (Prillo & Eisenschlos 2020, arXiv
    2006.16038). Kinks at ties, where |.| has the derivative 0.
    Form `neural_sort`: P = softmax over j of ((2 i - 1 - n) x_j - sum_k |x_j - x_k|) / T (Grover et al. 2019, arXiv
    1903.08850). Neither is monotone: a value may fall where an entry rises.
    Form `network`: a sorting network in which min(a, b) is F((b - a) / T) a + F((a - b) / T) b, F the Cauchy kernel's
    cdf: monotone (Petersen et al. 2022, arXiv 2203.09630). Form `network_logistic`: F the logistic cdf, not monotone
    (Petersen et al. 2021, arXiv 2105.04019).
    All are relaxations, not expectations. SoftSort takes time O(n log n) and memory O(n) for rows on a CPU that are up
    to 600 T wide; other rows take n x n numbers.
    rewrite: the network (Batcher 1968) with b - relu(b - a) and a + relu(b - a), exact up to the rounding of the larger
    magnitude. Tied entries stay in their order.
    """

    descending: bool = False
    dim: int = -1
    elementwise: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False  # x's shape, but an output does not belong to the input at its place
    tempered_proxy: ClassVar[bool] = True
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm", "first")

    def hard(self, x: Tensor) -> Tensor:
        return self._ascending(x, lambda rows: with_nan_rows(rows.sort(dim=-1).values, rows))

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return self._ascending(x, lambda rows: ordered(rows)[0] if rule == "first" else shared(rows))

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, None, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        return self._ascending(x, lambda rows: soft_values(soft_sort, rows, T))

    def smooth_neural_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """P x with NeuralSort's P."""
        return self._ascending(x, lambda rows: soft_values(neural_sort, rows, T))

    def smooth_network(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """A monotone sorting network: soft swaps with the Cauchy kernel."""
        return self._ascending(x, lambda rows: relaxed(rows, KERNELS["cauchy"], T))

    def smooth_network_logistic(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """A sorting network's soft swaps with the logistic kernel, not monotone."""
        return self._ascending(x, lambda rows: relaxed(rows, KERNELS["logistic"], T))

    @rewriting("exact")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self._ascending(x, exact)

    def _ascending(self, x: Tensor, of_rows: Callable[[Tensor], Tensor]) -> Tensor:
        """Applies a function of ascending rows (..., n) along `dim`, in this op's order."""
        rows = to_last(x, self.dim)
        values = -of_rows(-rows) if self.descending else of_rows(rows)
        return from_last(values, self.dim)
