"""The choice between two values by the sign of a third."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, flat
from surrogates.kernels import KERNELS, Kernel
from surrogates.known import known_finite, with_nan


@dataclass(frozen=True)
class Where(Op):
    """where(c, a, b) = a if c >= 0, else b.

    Three tensors of one shape (...), or of shapes that broadcast, elementwise. NaN in any of the three gives NaN, also
    in the branch that is not taken.
    Jump where c = 0. The derivative by c is 0 there by definition, and 0 everywhere else. a and b have the derivative
    of the branch that is taken; c = 0 takes a.
    smooth: F(c / T) a + (1 - F(c / T)) b = E[where(c + T e, a, b)], every kernel; c has a derivative too. Where an
    input is infinite the value is the hard one; there c and the branch that is not taken have the derivative 0.
    proxy: the smooth reading under the uniform kernel. Where |c| < T, heaviside's straight-through window, c has the
    derivative (a - b) / (2 T), and the derivative is split between a and b by c's place in the window.
    """

    keeps_shape: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True

    def hard(self, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return with_nan(torch.where(c >= 0, a, b), c, a, b)

    def subgradient(self, c: Tensor, a: Tensor, b: Tensor, rule: str) -> Tensor:
        return torch.where(c >= 0, a, b) + flat(c)

    def proxy(self, c: Tensor, a: Tensor, b: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(c, a, b, KERNELS["uniform"], T)

    def smooth(self, c: Tensor, a: Tensor, b: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        if known_finite(c, a, b):
            return kernel.cdf(c / T) * a + kernel.cdf(-c / T) * b
        infinite = c.isinf() | a.isinf() | b.isinf()
        u, first, second = (torch.where(infinite, 0, x) for x in (c / T, a, b))  # 0 * inf would be NaN
        mixed = kernel.cdf(u) * first + kernel.cdf(-u) * second
        return torch.where(infinite, self.hard(c, a, b), mixed)
