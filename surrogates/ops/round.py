"""Rounding to the nearest integer."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, flat, rewriting
from surrogates.kernels import Kernel
from surrogates.known import number_like
from surrogates.staircases.expectation import tanh_stairs, unbounded_slope, unbounded_stairs


@dataclass(frozen=True)
class Round(Op):
    """round(x) = the nearest integer, ties to even.

    Shape (...), elementwise. Jumps at k + 1/2, where the derivative is 0 by definition.
    proxy: x (identity straight-through; Bengio, Leonard & Courville 2013, arXiv 1308.3432).
    smooth: E[round(x + T e)].
    Two forms without a kernel: floor(x) + 1/2 + tanh(a r) / (2 tanh(a / 2)), r = x - floor(x) - 1/2. They are once
    differentiable, and the integers are fixed points:
    - `tanh`, a = 1 / T (soft round; Agustsson & Theis 2020, arXiv 2006.09952);
    - `dsq`, a = log(2 / alpha - 1), alpha = exp(-1 / T) the share of the jump that is left out (Gong et al. 2019, arXiv
      1908.05033). With the carrier `smooth` it is their quantizer, alpha = 0.2 at T = 0.62.
    rewrite: x + U(-1/2, 1/2) (additive noise; Balle, Laparra & Simoncelli 2017, arXiv 1611.01704), relaxed.
    """

    needs_mean: ClassVar[bool] = True

    @property
    def grid(self) -> float:
        return 1.0

    def hard(self, x: Tensor) -> Tensor:
        return torch.round(x)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return flat(x)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return x

    def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        return unbounded_stairs(x, kernel, T)

    def slopes(self, x: Tensor, kernel: Kernel, T: Tensor) -> tuple[Tensor]:
        return (unbounded_slope(x, kernel, T),)

    def smooth_tanh(self, x: Tensor, kernel: Kernel | None, T: Tensor | float) -> Tensor:
        """The soft round of steepness a = 1 / T."""
        return tanh_stairs(x, 1 / T)

    def smooth_dsq(self, x: Tensor, kernel: Kernel | None, T: Tensor | float) -> Tensor:
        """The soft round that leaves out alpha = exp(-1 / T) of a jump."""
        sharpness = 1 / number_like(x, T)
        return tanh_stairs(x, sharpness + torch.log1p(-torch.expm1(-sharpness)))

    @rewriting("relaxed", noisy=True)
    def rewrite(self, x: Tensor, noise: Tensor) -> Tensor:
        return x + (noise - 0.5)
