"""Rounding to the nearest integer."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, flat, rewriting
from surrogates.expectation import unbounded_stairs
from surrogates.kernels import Kernel


@dataclass(frozen=True)
class Round(Op):
    """round(x) = the nearest integer, ties to even.

    Shape (...), elementwise. Jumps at k + 1/2, where the derivative is 0 by definition.
    proxy: x (identity straight-through; Bengio, Leonard & Courville 2013, arXiv 1308.3432).
    smooth: E[round(x + T e)]. rewrite: x + U(-1/2, 1/2) (additive noise; Balle, Laparra & Simoncelli 2017,
    arXiv 1611.01704), relaxed.
    """

    needs_mean: ClassVar[bool] = True

    def hard(self, x: Tensor) -> Tensor:
        return torch.round(x)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return flat(x)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return x

    def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        return unbounded_stairs(x, kernel, T)

    @rewriting("relaxed", noisy=True)
    def rewrite(self, x: Tensor, noise: Tensor) -> Tensor:
        return x + (noise - 0.5)
