"""The absolute value."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, rewriting
from surrogates.kernels import KERNELS, Kernel


@dataclass(frozen=True)
class Abs(Op):
    """abs(x) = |x|.

    Shape (...), elementwise. Kink at 0: `minimum_norm` 0, `left` -1, `right` 1.
    proxy: the smooth reading under the logistic kernel.
    smooth: E|x + T e| = T (R(x / T) + R(-x / T)), R the kernel's ramp.
    rewrite: relu(x) + relu(-x), exact, derivative 0 at the kink.
    """

    needs_mean: ClassVar[bool] = True
    tempered_proxy: ClassVar[bool] = True
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm", "left", "right")

    def hard(self, x: Tensor) -> Tensor:
        return torch.abs(x)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        at_kink = {"minimum_norm": x.detach(), "left": -x, "right": x}[rule]
        return torch.where(x > 0, x, torch.where(x < 0, -x, at_kink))

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, KERNELS["logistic"], T)

    def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        return T * (kernel.ramp(x / T) + kernel.ramp(-x / T))

    def slopes(self, x: Tensor, kernel: Kernel, T: Tensor) -> tuple[Tensor]:
        return (2 * kernel.cdf(x / T) - 1,)

    @rewriting("exact")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return torch.relu(x) + torch.relu(-x)
