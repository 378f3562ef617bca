"""The maximum over a dimension."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, rewriting
from surrogates.known import at_hand
from surrogates.ops.maximum import Maximum


@dataclass(frozen=True)
class Max(Op):
    """max(x) = the largest entry along `dim`.

    Shape (..., n, ...) to (..., ...), `dim` removed. Entries may be -inf (masks).
    Ties: `minimum_norm` shares the derivative evenly; `first` gives it to the first maximal entry.
    proxy and smooth: T logsumexp(x / T), between max and max + T log n. Its derivative softmax(x / T) is exactly that
    of E[max(x + T g)] for centred Gumbel g; the values differ by the constant that the centring removes.
    Form `boltzmann`: sum_i softmax(x / T)_i x_i, between the mean and max. Form `sparsemax`: the same with sparsemax's
    weights (Martins & Astudillo 2016, arXiv 1602.02068), which are 0 for entries T or more below max. Neither is
    monotone: both fall where an entry of small weight rises.
    A row whose maximum is infinite (a +inf, or all -inf) has the hard value and derivative 0.
    rewrite: fold with a + relu(b - a), exact. Form `abs`: fold with (a + b + |a - b|) / 2, exact.
    """

    dim: int = -1
    elementwise: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm", "first")

    def hard(self, x: Tensor) -> Tensor:
        return torch.amax(x, self.dim)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        if rule == "first":
            return x.gather(self.dim, x.argmax(self.dim, keepdim=True)).squeeze(self.dim)
        tied = x == torch.amax(x, self.dim, keepdim=True)
        share = x / tied.sum(self.dim, keepdim=True)  # divided before the sum, which could overflow
        return torch.where(tied, share, 0).sum(self.dim)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, None, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        shifted, top, finite = below_maximum(x, self.dim)
        excess = T * torch.log(torch.exp(shifted / T).sum(self.dim))
        return top.squeeze(self.dim) + torch.where(finite.squeeze(self.dim), excess, 0)

    def smooth_boltzmann(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The mean of x weighted by softmax(x / T); not monotone."""
        return self._weighted_mean(x, lambda z: torch.softmax(z, self.dim), T)

    def smooth_sparsemax(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The mean of x weighted by sparsemax(x / T); not monotone."""
        return self._weighted_mean(x, lambda z: sparsemax(z, self.dim), T)

    def _weighted_mean(self, x: Tensor, weights: Callable[[Tensor], Tensor], T: Tensor | float) -> Tensor:
        shifted, top, _ = below_maximum(x, self.dim)
        drop = torch.where(shifted.isinf(), 0, shifted)  # their weight is 0, and 0 * inf would be NaN
        return (top + (weights(shifted / T) * drop).sum(self.dim, keepdim=True)).squeeze(self.dim)

    @rewriting("exact")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self._fold(x, Maximum().rewrite)

    @rewriting("exact")
    def rewrite_abs(self, x: Tensor, noise: None = None) -> Tensor:
        """The fold with (a + b + |a - b|) / 2."""
        return self._fold(x, Maximum().rewrite_abs)

    def _fold(self, x: Tensor, pair: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        return reduce(pair, x.unbind(self.dim))


def below_maximum(x: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """x minus its row's maximum, that maximum, and whether it is finite; 0 for rows whose maximum is infinite."""
    top = torch.amax(x.detach(), dim, keepdim=True)
    finite = ~top.isinf()
    return torch.where(finite, x - torch.where(finite, top, 0), 0), top, finite


def sparsemax(z: Tensor, dim: int) -> Tensor:
    """relu(z - t), t such that the sum is 1: the point of the simplex nearest to z, for rows with maximum 0."""
    above = torch.relu(z - _threshold(z.detach(), dim))
    inside = above.detach().sign()
    return (above - (above.sum(dim, keepdim=True) - 1) / inside.sum(dim, keepdim=True)) * inside


def _threshold(z: Tensor, dim: int) -> Tensor:
    """t, to rounding: by Newton's steps from below, or, where the numbers can't be read, from the sorted row.

    The steps end when the number of entries above t no longer falls.
    """
    if not at_hand(z):
        level = z.sort(dim=dim, descending=True).values.movedim(dim, -1)
        size = torch.arange(1, level.shape[-1] + 1, dtype=z.dtype, device=z.device)
        excess = level.cumsum(-1) - 1
        support = (size * level > excess).sum(-1, keepdim=True).clamp(min=1)
        return (excess.gather(-1, support - 1) / support).movedim(-1, dim)
    t, fewest = z.new_tensor(-1.0), z.new_tensor(math.inf)
    while True:
        above = (z - t).relu_()
        support = above.sign().sum(dim, keepdim=True)
        t = t + (above.sum(dim, keepdim=True) - 1) / support
        before, fewest = fewest, torch.minimum(fewest, support)
        if torch.equal(before, fewest):
            return t
