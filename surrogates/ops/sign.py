"""The sign."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from surrogates.core import Op, flat, passing_between
from surrogates.kernels import Kernel
from surrogates.known import with_nan


@dataclass(frozen=True)
class Sign(Op):
    """sign(x) = 1 for x > 0, -1 for x < 0, `zero` for x = 0.

    Shape (...), elementwise. `zero` = 1 or -1 makes the op binary; 0 is torch's ternary sign. NaN stays NaN (torch's
    sign gives 0, which hides a diverged run).
    Jump at 0, where the derivative is 0 by definition.
    proxy: x where |x| <= 1, else constant (Hubara et al. 2016, arXiv 1602.02830).
    smooth: 2 F(x / T) - 1.
    """

    zero: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not math.isfinite(self.zero):
            raise ValueError(f"zero must be finite, got {self.zero}")

    def hard(self, x: Tensor) -> Tensor:
        sign = torch.sign(x)
        if self.zero in (-1.0, 1.0):  # cheaper than `where`
            sign = torch.sign(sign + 0.5 * self.zero)
        elif self.zero != 0.0:
            sign = torch.where(x == 0, self.zero, sign)
        return with_nan(sign, x)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return flat(x)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return passing_between(x, -1.0, 1.0)

    def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        return 2 * kernel.cdf(x / T) - 1

    def slopes(self, x: Tensor, kernel: Kernel, T: Tensor) -> tuple[Tensor]:
        return (2 * kernel.density(x / T) / T,)

    def logits(self, x: Tensor) -> Tensor:
        return torch.stack([torch.zeros_like(x), x], -1)

    def chosen(self, one_hot: Tensor) -> Tensor:
        return one_hot[..., 1] - one_hot[..., 0]
