"""The minimum over a dimension."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from surrogates.core import Op, rewriting
from surrogates.ops.max import Max


@dataclass(frozen=True)
class Min(Op):
    """min(x) = -max(-x): the smallest entry along `dim`.

    Shape (..., n, ...) to (..., ...), `dim` removed. Entries may be +inf (masks).
    Ties: `minimum_norm` shares the derivative evenly; `first` gives it to the first minimal entry.
    proxy and smooth: -T logsumexp(-x / T), between min - T log n and min. Its derivative softmax(-x / T) is exactly
    that of E[min(x - T g)] for centred Gumbel g; the values differ by the constant that the centring removes.
    Forms `boltzmann` and `sparsemax`: the means of x weighted by softmax(-x / T) and sparsemax(-x / T), not monotone,
    as for max.
    A row whose minimum is infinite (a -inf, or all +inf) has the hard value and derivative 0.
    rewrite: fold with a - relu(a - b), exact. Form `abs`: fold with (a + b - |a - b|) / 2, exact.
    """

    dim: int = -1
    elementwise: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True
    subtracts_noise: ClassVar[bool] = True
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm", "first")

    def hard(self, x: Tensor) -> Tensor:
        return -Max(self.dim).hard(-x)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return -Max(self.dim).subgradient(-x, rule)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return -Max(self.dim).proxy(-x, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        return -Max(self.dim).smooth(-x, kernel, T)

    def smooth_boltzmann(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The mean of x weighted by softmax(-x / T); not monotone."""
        return -Max(self.dim).smooth_boltzmann(-x, kernel, T)

    def smooth_sparsemax(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The mean of x weighted by sparsemax(-x / T); not monotone."""
        return -Max(self.dim).smooth_sparsemax(-x, kernel, T)

    @rewriting("exact")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return -Max(self.dim).rewrite(-x)

    @rewriting("exact")
    def rewrite_abs(self, x: Tensor, noise: None = None) -> Tensor:
        """The fold with (a + b - |a - b|) / 2."""
        return -Max(self.dim).rewrite_abs(-x)
