"""The uniform law."""

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.kernels.kernel import Kernel, relu_beyond


class Uniform(Kernel):
    """density 1/2 on (-1, 1), 0 at the bounds. Width 1."""

    interquartile_range = 1.0
    peak = 0.5
    reach = (1.0, 1.0)
    boxes = 1

    def cdf(self, u: Tensor) -> Tensor:
        return F.hardtanh(0.5 * (u + 1), 0.0, 1.0)

    def density(self, u: Tensor) -> Tensor:
        return 0.5 * torch.ceil(torch.clamp(1 - u.abs(), 0, 1))

    def ramp(self, u: Tensor) -> Tensor:
        return relu_beyond(1.0, lambda v: 0.25 * (v + 1) ** 2, u)

    def quantile(self, p: Tensor) -> Tensor:
        return 2 * p - 1
