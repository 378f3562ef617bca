"""The position of the maximum, as a one-hot vector."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, flat, rewriting
from surrogates.known import known_finite
from surrogates.ops.max import below_maximum, sparsemax


@dataclass(frozen=True)
class ArgMax(Op):
    """argmax(x) = the one-hot vector of the first maximal entry along `dim`.

    Shape (..., n, ...) to the same. Every row has exactly one 1, a constant row too. A row with a NaN is NaN.
    The derivative is 0 by definition at the jumps, and 0 everywhere else. torch's own argmax has no graph.
    proxy and smooth: softmax(x / T), the exact expectation under centred Gumbel noise of scale T. A row whose maximum
    is infinite has the hard value and derivative 0.
    Form `sparsemax`: the point of the simplex nearest to x / T (Martins & Astudillo 2016, arXiv 1602.02068). Entries T
    or more below the maximum are exactly 0, with derivative 0.
    rewrite: argmax(x) * softmax(x), the choice weighted by its own probability, as in mixtures of experts (Shazeer et
    al. 2017, arXiv 1701.06538); changes the objective.
    """

    dim: int = -1
    elementwise: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True

    def hard(self, x: Tensor) -> Tensor:
        x = x.detach()
        one_hot = torch.zeros_like(x).scatter(self.dim, x.argmax(self.dim, keepdim=True), 1.0)
        return one_hot.masked_fill((x != x).any(self.dim, keepdim=True), math.nan)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return flat(x)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, None, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        return self._weigh(x, lambda shifted: torch.softmax(shifted / T, self.dim))

    def smooth_sparsemax(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """sparsemax(x / T)."""
        return self._weigh(x, lambda shifted: sparsemax(shifted / T, self.dim))

    def _weigh(self, x: Tensor, weights: Callable[[Tensor], Tensor]) -> Tensor:
        """The weights of x minus its row's maximum; the hard weights if that maximum is infinite."""
        top = x.detach().amax(self.dim, keepdim=True)
        if known_finite(top):
            return weights(x - top)
        shifted, _, finite = below_maximum(x, self.dim)
        return torch.where(finite, weights(shifted), self.hard(x))

    @rewriting("changes the objective")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self.hard(x) * self.smooth(x, None, 1.0)

    def logits(self, x: Tensor) -> Tensor:
        return x.movedim(self.dim, -1)

    def chosen(self, one_hot: Tensor) -> Tensor:
        return one_hot.movedim(-1, self.dim)
