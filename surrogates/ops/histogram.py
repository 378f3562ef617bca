"""The histogram of a row."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, flat, rewriting
from surrogates.float32 import require_count, require_range
from surrogates.kernels import KERNELS, Kernel


@dataclass(frozen=True)
class Histogram(Op):
    """histogram(x) = number of entries along `dim` in each of `bins` equal bins between `low` and `high`.

    Shape (..., n, ...) to (..., bins, ...). A bin holds its lower edge, the last bin both edges. Entries beyond the
    range, +-inf too, count in the first or the last bin, so the counts sum to n (torch.histc drops them). A row with a
    NaN is NaN. Half precision rounds counts above 256 (bfloat16) or 2048 (float16).
    The derivative is 0 by definition at the edges, and 0 everywhere else. torch's own counts have no graph.
    smooth: sum_i F((x_i - e_b) / T) - F((x_i - e_{b+1}) / T), e the edges, the outer two at -+inf, T in units of a
    bin's width. It is the exact expectation of histogram(x + T e), for every kernel, and sums to n. Memory O(n bins).
    proxy: the smooth reading under the uniform kernel.
    rewrite: each entry is shared linearly by the two bins whose centres enclose it (the uniform kernel at half a bin);
    relaxed, sums to n.
    Raises ValueError unless bins is a whole number of at least 1 and low < high are finite with edges that float32 can
    hold.
    """

    bins: int = 10
    low: float = 0.0
    high: float = 1.0
    dim: int = -1
    elementwise: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count(bins=self.bins)
        require_range(self.low, self.high, self.bins)

    @property
    def temperature_unit(self) -> float:
        return (self.high - self.low) / self.bins

    def takes_kernel(self, form: str | None = None) -> bool:
        return form is None

    def hard(self, x: Tensor) -> Tensor:
        rows = x.detach().movedim(self.dim, -1)
        passed = (rows.unsqueeze(-2) >= self._edges(x).unsqueeze(-1)).sum(-1)
        every = passed.new_full((*passed.shape[:-1], 1), rows.shape[-1])
        above = torch.cat([every, passed, torch.zeros_like(every)], -1)
        return self._place((above[..., :-1] - above[..., 1:]).to(x.dtype), rows)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        zero = flat(x.movedim(self.dim, -1)).sum(-1, keepdim=True)
        return zero.expand(*zero.shape[:-1], self.bins).movedim(-1, self.dim)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, KERNELS["uniform"], T)

    def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        rows = x.movedim(self.dim, -1)
        distance = (rows.unsqueeze(-2) - self._edges(x).unsqueeze(-1)) / (T * self.temperature_unit)
        one = torch.ones_like(rows).unsqueeze(-2)
        above = torch.cat([one, kernel.cdf(distance), torch.zeros_like(one)], -2)
        shares = above[..., :-1, :] - above[..., 1:, :]  # before the sum, so that no share is negative
        return self._place(shares.sum(-1), rows)

    @rewriting("relaxed")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self.smooth(x, KERNELS["uniform"], 0.5)

    def _edges(self, x: Tensor) -> Tensor:
        """The inner edges."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        return torch.linspace(self.low, self.high, self.bins + 1, dtype=dtype, device=x.device)[1:-1]

    def _place(self, counts: Tensor, rows: Tensor) -> Tensor:
        return counts.masked_fill(rows.isnan().any(-1, keepdim=True), math.nan).movedim(-1, self.dim)
