"""The smaller of two tensors."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, rewriting
from surrogates.kernels import KERNELS, Kernel
from surrogates.ops.maximum import Maximum, minus_distance


@dataclass(frozen=True)
class Minimum(Op):
    """minimum(a, b) = -maximum(-a, -b): a if a < b, else b.

    Two tensors of one shape (...), elementwise. NaN in either gives NaN.
    Kink where a = b: `minimum_norm` shares the derivative (1/2, 1/2); `first` gives it to a.
    proxy and the default smooth: -T logsumexp((-a, -b) / T).
    smooth: E[min(a + T e, b)] = min(a, b) - T R(-|a - b| / T), R the kernel's ramp, as e is symmetric. The logistic
    kernel gives the logsumexp.
    rewrite: a - relu(a - b), exact up to the rounding of the larger magnitude; a tie goes to a.
    Form `abs`: (a + b - |a - b|) / 2, exact likewise; a tie is shared.
    """

    needs_mean: ClassVar[bool] = True
    keeps_shape: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm", "first")

    def hard(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.minimum(a, b)

    def subgradient(self, a: Tensor, b: Tensor, rule: str) -> Tensor:
        return -Maximum().subgradient(-a, -b, rule)

    def proxy(self, a: Tensor, b: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(a, b, KERNELS["logistic"], T)

    def smooth(self, a: Tensor, b: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        first = a <= b
        bottom = torch.where(first, a, b)
        return bottom - T * kernel.ramp(minus_distance(b, a, first, bottom) / T)

    def slopes(self, a: Tensor, b: Tensor, kernel: Kernel, T: Tensor) -> tuple[Tensor, Tensor]:
        share = torch.nan_to_num(kernel.cdf((b - a) / T))  # inf - inf is NaN
        return share, 1 - share

    @rewriting("exact")
    def rewrite(self, a: Tensor, b: Tensor, noise: None = None) -> Tensor:
        return -Maximum().rewrite(-a, -b)

    @rewriting("exact")
    def rewrite_abs(self, a: Tensor, b: Tensor, noise: None = None) -> Tensor:
        """(a + b - |a - b|) / 2."""
        return -Maximum().rewrite_abs(-a, -b)
