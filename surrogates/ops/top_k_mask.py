"""The positions of the k largest entries, as a k-hot vector."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.core import Op, flat, rewriting
from surrogates.float32 import require_count
from surrogates.known import known_finite
from surrogates.sorting.permutations import Relaxation, network, neural_sort, soft_sort
from surrogates.sorting.values import from_last, to_last


@dataclass(frozen=True)
class TopKMask(Op):
    """top_k_mask(x) = 1 at the k largest entries along `dim`, 0 elsewhere; of tied entries the first are taken.

    Shape (..., n, ...) to the same, n >= k. Every row has exactly k ones, a constant row too. Entries may be -inf
    (masks). A row with a NaN is NaN.
    The derivative is 0 by definition at the jumps, and 0 everywhere else. A mask made of torch's indices has no graph.
    proxy and smooth: P(i in S) for a subset S of k entries with probability proportional to exp(sum of S / T) (the
    marginals of Ahmed et al. 2023, arXiv 2210.01941). It is between 0 and 1, sums to k and keeps the order of x; for k
    = 1 it is argmax's softmax(x / T). All entries have a derivative. A relaxation, not the expectation under noise
    added to x. Computed in float64 without cancellation, in time O(n k log n). A row with an infinite value among its k
    largest has the hard value and derivative 0.
    Forms `soft_sort`, `neural_sort`, `network`: the sum of the k highest ranks' weights in the relaxed permutation of
    that name. They sum to k; those of the first two can exceed 1.
    rewrite: top_k_mask(x) * smooth(x) at T = 1, each chosen entry weighted by its own probability, as for argmax;
    changes the objective.
    Raises ValueError if k is below 1.
    Raises IndexError if a row is shorter than k.
    """

    k: int = 2
    dim: int = -1
    elementwise: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count(k=self.k)

    def hard(self, x: Tensor) -> Tensor:
        x = x.detach()
        chosen = torch.zeros_like(x).scatter(self.dim, largest(x, self.k, self.dim), 1.0)
        return chosen.masked_fill((x != x).any(self.dim, keepdim=True), math.nan)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return flat(x)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, None, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        rows = x.movedim(self.dim, -1)
        hard = self.hard(x).movedim(self.dim, -1)
        finite = ~torch.where(hard > 0, rows.detach(), 0).isinf().any(-1, keepdim=True)
        rates, total, without = exchanges(rows, self.k, T)
        # an entry changes sides if it is one of the j that leave the top, or of the j that enter it
        others = total.flip(0).unsqueeze(-2)[..., 1:]
        moved = (rates * (others * without[..., :-1]).sum(-1)).sum(0) / partition(total).unsqueeze(-1)
        soft = hard + ((1 - 2 * hard) * moved).to(x.dtype)
        return torch.where(finite, soft, hard).movedim(-1, self.dim)

    def smooth_soft_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The weights of SoftSort's k highest ranks."""
        return self._last_ranks(soft_sort, x, T)

    def smooth_neural_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The weights of NeuralSort's k highest ranks."""
        return self._last_ranks(neural_sort, x, T)

    def smooth_network(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The weights of a sorting network's k highest ranks, with the Cauchy kernel."""
        return self._last_ranks(network, x, T)

    def _last_ranks(self, relaxation: Relaxation, x: Tensor, T: Tensor | float) -> Tensor:
        require_entries(x, self.k, self.dim)
        soft = from_last(relaxation(-to_last(x, self.dim), T, slice(self.k)).sum(-2), self.dim)
        if known_finite(x):
            return soft
        hard = self.hard(x)
        finite = ~torch.where(hard > 0, x.detach(), 0).isinf().any(self.dim, keepdim=True)
        return torch.where(finite, soft, hard)

    @rewriting("changes the objective")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self.hard(x) * self.smooth(x, None, 1.0)


def require_entries(x: Tensor, k: int, dim: int) -> None:
    """Raises IndexError if the rows along a dim have fewer than k entries."""
    if x.shape[dim] < k:
        raise IndexError(f"k={k} needs rows of at least {k} entries, the rows along dim={dim} have {x.shape[dim]}")


def largest(x: Tensor, k: int, dim: int) -> Tensor:
    """The positions of the k largest entries along a dim, largest first; tied entries stay in their order."""
    require_entries(x, k, dim)
    return x.detach().sort(dim=dim, descending=True, stable=True).indices.narrow(dim, 0, k)


def exchanges(x: Tensor, k: int, T: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
    """The costs of swapping entries between the top k (side 0) and the rest (side 1), for rows (..., n).

    A threshold lies between the sides. The weight of a subset, relative to that of the top k, is a product of rates
    exp(-|x_i - threshold| / T): those of the entries that changed sides, as many on one side as on the other. The
    weight does not depend on the threshold's place. No rate is above 1, so nothing overflows or cancels.
    Returns the rates (2, ..., n), 0 on the other side; the elementary symmetric polynomials of each side's rates by
    degree (2, ..., degrees); and the polynomials without one entry (2, ..., n, degrees).
    """
    n = x.shape[-1]
    order = x.detach().sort(dim=-1, descending=True, stable=True)
    above = torch.zeros_like(x, dtype=torch.bool).scatter(-1, order.indices[..., :k], True)
    edge = order.values[..., k - 1 : k]
    below = order.values[..., k : k + 1] if k < n else edge
    threshold = torch.where(below.isinf(), edge, 0.5 * edge + 0.5 * below).double()
    inside = ~threshold.isinf()
    wide = torch.where(inside, x.double(), 0)
    distance = (wide - torch.where(inside, threshold, 0)) / T
    rates = torch.where(torch.stack([above, ~above]), torch.exp(torch.where(above, -distance, distance)), 0)
    return rates, *_symmetric(rates, min(k, n - k))


def partition(total: Tensor) -> Tensor:
    """The sum of the weights of all subsets of k entries, relative to that of the top k."""
    return (total[0] * total[1]).sum(-1)


def _symmetric(rates: Tensor, degree: int) -> tuple[Tensor, Tensor]:
    """Elementary symmetric polynomials up to a degree, of all rates (..., n) and of all but one, by a tree."""
    n = rates.shape[-1]
    depth = max(n - 1, 0).bit_length()
    padded = F.pad(rates, (0, 2**depth - n))
    levels = [torch.stack([torch.ones_like(padded), padded], -1)[..., : degree + 1]]
    for _ in range(depth):
        levels.append(_product(levels[-1][..., 0::2, :], levels[-1][..., 1::2, :], degree))
    total = levels.pop()[..., 0, :]
    without = torch.ones_like(total[..., :1]).unsqueeze(-2)
    for level in reversed(levels):
        siblings = torch.stack([level[..., 1::2, :], level[..., 0::2, :]], -2).flatten(-3, -2)
        without = _product(without.repeat_interleave(2, -2), siblings, degree)
    return _pad_to(total, degree), _pad_to(without[..., :n, :], degree)


def _product(p: Tensor, q: Tensor, degree: int) -> Tensor:
    """The product of two polynomials, lowest power first, up to a degree."""
    long, short = (p, q) if p.shape[-1] >= q.shape[-1] else (q, p)
    degree = min(degree, long.shape[-1] + short.shape[-1] - 2)
    total = _pad_to(long, degree) * short[..., :1]
    for power in range(1, short.shape[-1]):
        total = total + F.pad(long, (power, degree + 1 - power - long.shape[-1])) * short[..., power, None]
    return total


def _pad_to(p: Tensor, degree: int) -> Tensor:
    """Appends zeros for the powers up to a degree."""
    return F.pad(p, (0, degree + 1 - p.shape[-1]))
