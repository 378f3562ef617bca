"""The triangular law."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.kernels.kernel import Kernel, relu_beyond


class Triangular(Kernel):
    """density 1 - |u| on (-1, 1). Width 2 - sqrt(2)."""

    interquartile_range = 2 - math.sqrt(2)
    peak = 1.0
    reach = (1.0, 1.0)
    boxes = 2

    def cdf(self, u: Tensor) -> Tensor:
        c = F.hardtanh(u, -1.0, 1.0)
        return 0.5 + c - 0.5 * c * c.abs()

    def density(self, u: Tensor) -> Tensor:
        return 1 - F.hardtanh(u, -1.0, 1.0).abs()

    def ramp(self, u: Tensor) -> Tensor:
        return relu_beyond(1.0, lambda v: 1 / 6 + 0.5 * v + 0.5 * v * v - v * v * v.abs() / 6, u)

    def quantile(self, p: Tensor) -> Tensor:
        tail = 1 - torch.sqrt(2 * torch.minimum(p, 1 - p))
        return torch.where(p < 0.5, -tail, tail)
