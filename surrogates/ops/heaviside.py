"""The unit step."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from surrogates.core import Op, flat, passing_between
from surrogates.kernels import Kernel
from surrogates.known import with_nan


@dataclass(frozen=True)
class Heaviside(Op):
    """heaviside(x) = 1 for x > 0, 0 for x < 0, `zero` for x = 0 (1 by default: reaching the threshold fires).

    Shape (...), elementwise. NaN stays NaN. Jump at 0, where the derivative is 0 by definition.
    proxy: x / 2 where |x| <= 1, else constant. It is half of the sign's, so that its derivative has the step's area 1.
    smooth: F(x / T). Its derivative is the kernel's density, the surrogate derivative of spiking nets.
    """

    zero: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not math.isfinite(self.zero):
            raise ValueError(f"zero must be finite, got {self.zero}")

    def hard(self, x: Tensor) -> Tensor:
        step = torch.sign(x.detach())  # half the cost of a comparison and its conversion
        step = step.add_(1).clamp_(max=1) if self.zero == 1.0 else step.clamp_(min=0)
        if self.zero not in (0.0, 1.0):
            step = torch.where(x == 0, self.zero, step)
        return with_nan(step, x)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return flat(x)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return 0.5 * passing_between(x, -1.0, 1.0)

    def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        return kernel.cdf(x / T)

    def slopes(self, x: Tensor, kernel: Kernel, T: Tensor) -> tuple[Tensor]:
        return (kernel.density(x / T) / T,)

    def logits(self, x: Tensor) -> Tensor:
        return torch.stack([torch.zeros_like(x), x], -1)

    def chosen(self, one_hot: Tensor) -> Tensor:
        return one_hot[..., 1]
