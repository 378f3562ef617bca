"""The base of ops that read one or two places of the sorted row: median and quantile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from surrogates.core import Op, rewriting
from surrogates.kernels import KERNELS
from surrogates.sorting.networks import exact, relaxed
from surrogates.sorting.permutations import neural_sort, soft_sort
from surrogates.sorting.soft_values import soft_values
from surrogates.sorting.values import ordered, shared, with_nan_rows

SortedValues = Callable[[Tensor, slice], Tensor]  # of rows (..., n) and places, to (..., places), ascending


@dataclass(frozen=True)
class OrderStatistic(Op):
    """An op computed by `from_sorted` from some sorted values along its `dim`; each reading sorts in its own way."""

    elementwise: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm", "first")

    def from_sorted(self, x: Tensor, sort: SortedValues) -> Tensor:
        """The op's value, from the sorted values of rows at some places."""
        raise NotImplementedError

    def hard(self, x: Tensor) -> Tensor:
        """From the sorted values."""
        return self.from_sorted(x, lambda rows, at: with_nan_rows(rows.sort(dim=-1).values[..., at], rows))

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        """From the sorted values, with `rule`'s derivative at ties."""
        return self.from_sorted(x, lambda rows, at: (ordered(rows)[0] if rule == "first" else shared(rows))[..., at])

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        """The smooth reading."""
        return self.smooth(x, None, T)

    def smooth(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """From SoftSort's values."""
        return self.from_sorted(x, lambda rows, at: soft_values(soft_sort, rows, T, at))

    def smooth_neural_sort(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """From NeuralSort's values."""
        return self.from_sorted(x, lambda rows, at: soft_values(neural_sort, rows, T, at))

    def smooth_network(self, x: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        """From the monotone sorting network's values."""
        return self.from_sorted(x, lambda rows, at: relaxed(rows, KERNELS["cauchy"], T)[..., at])

    @rewriting("exact")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        """From the exact sorting network's values."""
        return self.from_sorted(x, lambda rows, at: exact(rows)[..., at])
