"""The position of the minimum, as a one-hot vector."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from surrogates.core import Op, flat, rewriting
from surrogates.ops.argmax import ArgMax


@dataclass(frozen=True)
class ArgMin(Op):
    """argmin(x) = argmax(-x): the one-hot vector of the first minimal entry along `dim`.

    Shape (..., n, ...) to the same. Every row has exactly one 1, a constant row too. A row with a NaN is NaN. Entries
    may be +inf (masks).
    The derivative is 0 by definition at the jumps, and 0 everywhere else.
    proxy and smooth: softmax(-x / T), the exact expectation if centred Gumbel noise of scale T is subtracted. A row
    whose minimum is infinite has the hard value and derivative 0.
    Form `sparsemax`: sparsemax(-x / T), as for argmax.
    rewrite: argmin(x) * softmax(-x), the choice weighted by its own probability, as for argmax; changes the objective.
    """

    dim: int = -1
    elementwise: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True
    subtracts_noise: ClassVar[bool] = True

    def hard(self, x: Tensor) -> Tensor:
        return ArgMax(self.dim).hard(-x)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return flat(x)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return ArgMax(self.dim).proxy(-x, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        return ArgMax(self.dim).smooth(-x, kernel, T)

    def smooth_sparsemax(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """sparsemax(-x / T)."""
        return ArgMax(self.dim).smooth_sparsemax(-x, kernel, T)

    @rewriting("changes the objective")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return ArgMax(self.dim).rewrite(-x)

    def logits(self, x: Tensor) -> Tensor:
        return ArgMax(self.dim).logits(-x)

    def chosen(self, one_hot: Tensor) -> Tensor:
        return ArgMax(self.dim).chosen(one_hot)
