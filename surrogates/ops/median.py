"""The median of a row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from surrogates.core import Op, rewriting
from surrogates.kernels import KERNELS
from surrogates.networks import exact, relaxed
from surrogates.ops.sort import shared, weighted, with_nan
from surrogates.permutations import neural_sort, ordered, soft_sort


@dataclass(frozen=True)
class Median(Op):
    """median(x) = x_(m), m = (n - 1) // 2, of the sorted entries x_(0) .. x_(n-1) along `dim`.

    Shape (..., n, ...) to (..., ...), `dim` removed; of an even number of entries the lower of the two in the middle,
    as torch.median (Quantile(0.5) is their mean). The derivative is exact almost everywhere: that of the entry itself.
    Ties: `minimum_norm` shares it evenly among the entries that are equal to the median, `first` gives it to the one
    whose place is m if tied entries stay in their order. Infinite entries (masks) are legal. A row with a NaN is NaN.
    proxy and smooth: the smooth sort's value (SoftSort; forms `neural_sort` and `network` as for sort, the last one
    monotone). rewrite: the sorting network's, exact up to the rounding of the larger magnitude.
    Raises IndexError for an empty row.
    """

    dim: int = -1
    elementwise: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm", "first")

    def hard(self, x: Tensor) -> Tensor:
        return self._middle(x, lambda rows, at: with_nan(rows.sort(dim=-1).values[..., at], rows))

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return self._middle(x, lambda rows, at: (ordered(rows)[0] if rule == "first" else shared(rows))[..., at])

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, None, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        return self._middle(x, lambda rows, at: weighted(soft_sort, rows, T, at))

    def smooth_neural_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """NeuralSort's value."""
        return self._middle(x, lambda rows, at: weighted(neural_sort, rows, T, at))

    def smooth_network(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The monotone sorting network's value."""
        return self._middle(x, lambda rows, at: relaxed(rows, KERNELS["cauchy"], T)[..., at])

    @rewriting("exact")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self._middle(x, lambda rows, at: exact(rows)[..., at])

    def _middle(self, x: Tensor, sort: Callable[[Tensor, slice], Tensor]) -> Tensor:
        n = x.shape[self.dim]
        if n == 0:
            raise IndexError("the median of a row needs an entry in it, it has none")
        middle = (n - 1) // 2
        return sort(x.movedim(self.dim, -1), slice(middle, middle + 1)).squeeze(-1)
