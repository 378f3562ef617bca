"""The unit step at a threshold that may be learned."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op
from surrogates.kernels import Kernel
from surrogates.known import known_finite
from surrogates.ops.heaviside import Heaviside


@dataclass(frozen=True)
class Threshold(Op):
    """threshold(x, t) = heaviside(x - t): 1 for x >= t, else 0.

    Two tensors of one shape (...), or of shapes that broadcast, elementwise. NaN in either gives NaN. Equal infinities
    reach the threshold.
    Jump where x = t, where the derivative is 0 by definition. torch's own comparison has no graph. Here x and t both
    have a derivative, of opposite sign.
    proxy: half of x - t where |x - t| <= 1, else constant, as for heaviside.
    smooth: F((x - t) / T) = E[1 if x + T e >= t], every kernel. The derivative is the kernel's density for x, and minus
    that for t.
    """

    keeps_shape: ClassVar[bool] = False

    def hard(self, x: Tensor, t: Tensor) -> Tensor:
        return Heaviside().hard(_excess(x, t))

    def subgradient(self, x: Tensor, t: Tensor, rule: str) -> Tensor:
        return Heaviside().subgradient(_excess(x, t), rule)

    def proxy(self, x: Tensor, t: Tensor, T: Tensor | float) -> Tensor:
        return Heaviside().proxy(_excess(x, t), T)

    def smooth(self, x: Tensor, t: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        return Heaviside().smooth(_excess(x, t), kernel, T)


def _excess(x: Tensor, t: Tensor) -> Tensor:
    """x - t, infinite where both are the same infinity."""
    if known_finite(x, t):
        return x - t
    return torch.where((x == t) & x.isinf(), math.inf, x - t)
