"""The logistic law."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.kernels.kernel import Kernel


class Logistic(Kernel):
    """density sigmoid'(u); the difference of two Gumbel variables. Width 2 ln 3."""

    interquartile_range = 2 * math.log(3)
    peak = 0.25
    reach = (17.0, 37.0)

    def cdf(self, u: Tensor) -> Tensor:
        return torch.sigmoid(u)

    def density(self, u: Tensor) -> Tensor:
        s = torch.sigmoid(-u.abs())  # sigmoid(u) (1 - sigmoid(u)) would cancel for large u
        return torch.addcmul(s, s, s, value=-1)

    def cdf_and_density(self, u: Tensor) -> tuple[Tensor, Tensor]:
        s = torch.sigmoid(u)
        return s, torch.addcmul(s, s, s, value=-1)

    def ramp(self, u: Tensor) -> Tensor:
        return F.softplus(u, threshold=50)  # torch's default of 20 has an error of 2e-9

    def quantile(self, p: Tensor) -> Tensor:
        return torch.logit(p)

    def characteristic(self, w: Tensor) -> Tensor:
        y = (math.pi * w.abs()).clamp(min=1e-9)
        return 2 * y * torch.exp(-y) / -torch.expm1(-2 * y)  # y / sinh(y)
