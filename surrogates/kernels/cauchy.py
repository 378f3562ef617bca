"""The Cauchy law."""

import math

import torch
from torch import Tensor

from surrogates.kernels.kernel import Kernel, magnitude


class Cauchy(Kernel):
    """density 1 / (pi (1 + u^2)), the derivative of arctan; no mean. Width 2."""

    interquartile_range = 2.0
    peak = 1 / math.pi
    has_mean = False

    def cdf(self, u: Tensor) -> Tensor:
        return 0.5 + torch.atan(u) / math.pi

    def density(self, u: Tensor) -> Tensor:
        return 1 / (math.pi * (1 + u * u))

    def ramp(self, u: Tensor) -> Tensor:
        a = magnitude(u)
        small = torch.where(a > 1, 1, a)
        angle = torch.where(a > 1, torch.atan(1 / torch.where(a > 1, a, 1)), math.pi / 2 - torch.atan(small))
        log = torch.where(
            a > 1e4, torch.log(torch.where(a > 1e4, a, 1)), 0.5 * torch.log1p(torch.where(a > 1e4, 0, a) ** 2)
        )
        return torch.where(u >= 0, u, 0) - (a * angle + log) / math.pi

    def quantile(self, p: Tensor) -> Tensor:
        return torch.tan(math.pi * (p - 0.5))
