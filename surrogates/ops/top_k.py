"""The k largest values."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, rewriting
from surrogates.float32 import require_count
from surrogates.kernels import KERNELS
from surrogates.ops.top_k_mask import exchanges, largest, partition, require_entries
from surrogates.sorting.networks import exact_swap, relaxed
from surrogates.sorting.permutations import neural_sort, soft_sort
from surrogates.sorting.soft_values import soft_values
from surrogates.sorting.values import from_last, shared, to_last


@dataclass(frozen=True)
class TopK(Op):
    """top_k(x) = the k largest entries along `dim`, largest first.

    Shape (..., n, ...) to (..., k, ...), n >= k. Entries may be -inf (masks). A row with a NaN is NaN.
    The derivative is exact almost everywhere: each value has that of its own entry, the other entries 0. Ties:
    `minimum_norm` shares the derivative of a value evenly among the entries equal to it; `first` follows a stable sort.
    proxy and smooth: S_j - S_(j-1), S_j = T log of the sum over subsets S of j entries of exp(sum of S / T), a smooth
    sum of the j largest. The values descend; the first is max's T logsumexp(x / T). A relaxation, computed in float64.
    A row with an infinite value among its k largest has the hard value and derivative 0.
    Forms `soft_sort`, `neural_sort`, `network`: the k last ranks of the smooth sort of that name, largest first.
    rewrite: k passes of a + relu(b - a), b - relu(b - a) over neighbours, exact up to the rounding of the larger
    magnitude. Tied entries stay in their order.
    Raises ValueError if k is below 1.
    Raises IndexError if a row is shorter than k.
    """

    k: int = 2
    dim: int = -1
    elementwise: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm", "first")
    functions: ClassVar[Mapping[str, Mapping[str, int]]] = {"topk": {}}

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count(k=self.k)

    def hard(self, x: Tensor) -> Tensor:
        values = x.gather(self.dim, largest(x, self.k, self.dim))
        return values.masked_fill((x != x).any(self.dim, keepdim=True), math.nan)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        if rule == "first":
            return x.gather(self.dim, largest(x, self.k, self.dim))
        return self._first(x, lambda rows, at: shared(rows)[..., at])

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, None, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        hard = self.hard(x).movedim(self.dim, -1)
        finite = ~hard.detach().isinf().any(-1, keepdim=True)
        rows = torch.where(finite, x.movedim(self.dim, -1), 0)
        values = rows.gather(-1, largest(rows, self.k, -1))
        sums = [torch.log(partition(exchanges(rows, j, T)[1])) for j in range(1, self.k + 1)]
        excess = T * torch.diff(torch.stack(sums, -1), prepend=torch.zeros_like(sums[0]).unsqueeze(-1))
        return torch.where(finite, values + excess.to(x.dtype), hard.detach()).movedim(-1, self.dim)

    def smooth_soft_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """SoftSort's values."""
        return self._first(x, lambda rows, at: soft_values(soft_sort, rows, T, at))

    def smooth_neural_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """NeuralSort's values."""
        return self._first(x, lambda rows, at: soft_values(neural_sort, rows, T, at))

    def smooth_network(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """The monotone sorting network's values."""
        return self._first(x, lambda rows, at: relaxed(rows, KERNELS["cauchy"], T)[..., at])

    def _first(self, x: Tensor, sort: Callable[[Tensor, slice], Tensor]) -> Tensor:
        """Sorts the negated rows in ascending order and returns their first k, negated again."""
        require_entries(x, self.k, self.dim)
        return from_last(-sort(-to_last(x, self.dim), slice(self.k)), self.dim)

    @rewriting("exact")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        require_entries(x, self.k, self.dim)
        left, values = list(x.unbind(self.dim)), []
        for _ in range(self.k):
            top, rest = left[0], []
            for entry in left[1:]:
                smaller, top = exact_swap(top, entry)
                rest.append(smaller)
            values.append(top)
            left = rest
        return torch.stack(values, self.dim)
