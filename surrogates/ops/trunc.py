"""Rounding towards zero."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, flat, rewriting
from surrogates.kernels import Kernel
from surrogates.staircases.expectation import unbounded_slope, unbounded_stairs


@dataclass(frozen=True)
class Trunc(Op):
    """trunc(x) = floor(x) for x >= 0, ceil(x) for x < 0.

    Shape (...), elementwise. Jumps at the integers other than 0, where the derivative is 0 by definition. The step
    around 0 is two wide.
    proxy: x.
    smooth: E[trunc(x + T e)] = E[floor(x + T e)] + F(-x / T), F the kernel's cdf.
    rewrite: relu(x - 1/2) - relu(-x - 1/2), relaxed, without the op's mean error, derivative 0 at its kinks -1/2 and
    1/2.
    Form `dither`: relu(x - U(0, 1)) - relu(-x - U(0, 1)), one draw for both, relaxed; the same mean where |x| >= 1.
    """

    needs_mean: ClassVar[bool] = True

    def hard(self, x: Tensor) -> Tensor:
        return torch.div(x, 1, rounding_mode="trunc")  # torch.trunc is 20 times as slow on a CPU

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return flat(x)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return x

    def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        return unbounded_stairs(x - 0.5, kernel, T) + kernel.cdf(-x / T)

    def slopes(self, x: Tensor, kernel: Kernel, T: Tensor) -> tuple[Tensor]:
        return (unbounded_slope(x - 0.5, kernel, T) - kernel.density(x / T) / T,)

    @rewriting("relaxed")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return torch.relu(x - 0.5) - torch.relu(-x - 0.5)

    @rewriting("relaxed", noisy=True)
    def rewrite_dither(self, x: Tensor, noise: Tensor) -> Tensor:
        """Moves x towards 0 by U(0, 1), at most to 0: between trunc(x) and the next integer towards 0."""
        return torch.relu(x - noise) - torch.relu(-x - noise)
