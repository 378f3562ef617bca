"""The normal law."""

import math

import torch
from torch import Tensor

from surrogates.kernels.kernel import Kernel, relu_beyond


class Normal(Kernel):
    """density exp(-u^2 / 2) / sqrt(2 pi). Width 1.349."""

    interquartile_range = 2 * 0.6744897501960817
    peak = 1 / math.sqrt(2 * math.pi)
    reach = (5.5, 8.5)

    def cdf(self, u: Tensor) -> Tensor:
        return 0.5 * torch.erfc(u * -math.sqrt(0.5))

    def density(self, u: Tensor) -> Tensor:
        return torch.exp(-0.5 * (u * u)) / math.sqrt(2 * math.pi)

    def ramp(self, u: Tensor) -> Tensor:
        return relu_beyond(40.0, lambda v: v * self.cdf(v) + self.density(v), u)  # inf * 0 outside

    def quantile(self, p: Tensor) -> Tensor:
        result: Tensor = torch.special.ndtri(p)
        return result

    def characteristic(self, w: Tensor) -> Tensor:
        return torch.exp(-0.5 * w * w)
