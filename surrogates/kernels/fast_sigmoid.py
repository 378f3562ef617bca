"""The law of the fast sigmoid."""

import torch
from torch import Tensor

from surrogates.kernels.kernel import Kernel, magnitude


class FastSigmoid(Kernel):
    """density 1 / (2 (1 + |u|)^2), the SuperSpike derivative (Zenke & Ganguli 2018); no mean. Width 2."""

    interquartile_range = 2.0
    peak = 0.5
    has_mean = False

    def cdf(self, u: Tensor) -> Tensor:
        tail = 0.5 / (1 + magnitude(u))
        return torch.where(u < 0, tail, 1 - tail)

    def density(self, u: Tensor) -> Tensor:
        return 0.5 / (1 + u.abs()) ** 2

    def ramp(self, u: Tensor) -> Tensor:
        return torch.where(u >= 0, u, 0) - 0.5 * torch.log1p(magnitude(u))

    def quantile(self, p: Tensor) -> Tensor:
        return torch.where(p < 0.5, 1 - 0.5 / p, 0.5 / (1 - p) - 1)
