"""The rectifier."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, passing, rewriting
from surrogates.kernels import KERNELS, Kernel


@dataclass(frozen=True)
class ReLU(Op):
    """relu(x) = max(x, 0).

    Shape (...), elementwise. Kink at 0: `minimum_norm` 0, `left` 0, `right` 1.
    proxy: the smooth reading under the logistic kernel.
    smooth: E[relu(x + T e)] = T R(x / T), R the kernel's ramp. The logistic kernel gives T softplus(x / T).
    rewrite: (x + |x|) / 2, exact, derivative 1/2 at the kink.
    """

    needs_mean: ClassVar[bool] = True
    tempered_proxy: ClassVar[bool] = True
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm", "left", "right")

    def hard(self, x: Tensor) -> Tensor:
        return torch.relu(x)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return passing(x, x >= 0 if rule == "right" else x > 0)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(x, KERNELS["logistic"], T)

    def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        return T * kernel.ramp(x / T)

    def slopes(self, x: Tensor, kernel: Kernel, T: Tensor) -> tuple[Tensor]:
        return (kernel.cdf(x / T),)

    @rewriting("exact")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return torch.where(x.isinf(), torch.relu(x), 0.5 * (x + torch.abs(x)))
