"""Kernels: symmetric noise laws of density area 1; one gives the smooth step, the surrogate derivative, the sampler.

Each kernel is the law of a variable e. With u = x / T:

- `cdf(u)`      F(u) = P(e <= u), the smooth step E[heaviside(x + T e)]
- `density(u)`  F'(u), the surrogate derivative
- `ramp(u)`     an antiderivative of F; E[relu(u + e)] where e has a mean
- `quantile(p)` F^-1(p), which maps uniform noise to e

Shapes are preserved. `interquartile_range` is that of e: compare shapes at equal width, not at equal T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

KernelName = Literal["logistic", "normal", "uniform", "triangular", "cauchy", "fast_sigmoid"]


@dataclass(frozen=True)
class Kernel:
    """A symmetric noise law."""

    has_mean: ClassVar[bool] = True
    boxes: ClassVar[int] = 0  # compact laws: how many uniform laws are added up
    interquartile_range: ClassVar[float]
    reach: ClassVar[tuple[float, float]] = (math.inf, math.inf)  # float32, float64: beyond it the tails are nothing

    def cdf(self, u: Tensor) -> Tensor:
        """P(e <= u)."""
        raise NotImplementedError

    def density(self, u: Tensor) -> Tensor:
        """The derivative of the cdf."""
        raise NotImplementedError

    def cdf_and_density(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Both, which may cost less than one after the other; the density to within the dtype's resolution of 1."""
        return self.cdf(u), self.density(u)

    def ramp(self, u: Tensor) -> Tensor:
        """An antiderivative of the cdf; E[relu(u + e)] where e has a mean."""
        raise NotImplementedError

    def quantile(self, p: Tensor) -> Tensor:
        """The inverse of the cdf, for p in (0, 1)."""
        raise NotImplementedError

    def characteristic(self, w: Tensor) -> Tensor:
        """E[cos(w e)]; declared by the laws whose characteristic function decays exponentially."""
        raise NotImplementedError


class Logistic(Kernel):
    """density sigmoid'(u); the difference of two Gumbel variables. Width 2 ln 3."""

    interquartile_range = 2 * math.log(3)
    reach = (17.0, 37.0)

    def cdf(self, u: Tensor) -> Tensor:
        return torch.sigmoid(u)

    def density(self, u: Tensor) -> Tensor:
        s = u.abs().neg_().sigmoid_()  # sigmoid(u) (1 - sigmoid(u)) would cancel for large u
        return torch.addcmul(s, s, s, value=-1)

    def cdf_and_density(self, u: Tensor) -> tuple[Tensor, Tensor]:
        s = torch.sigmoid(u)
        return s, torch.addcmul(s, s, s, value=-1)

    def ramp(self, u: Tensor) -> Tensor:
        return F.softplus(u, threshold=50)  # torch's default of 20 leaves an error of 2e-9

    def quantile(self, p: Tensor) -> Tensor:
        return torch.logit(p)

    def characteristic(self, w: Tensor) -> Tensor:
        y = (math.pi * w.abs()).clamp(min=1e-9)
        return 2 * y * torch.exp(-y) / -torch.expm1(-2 * y)  # y / sinh(y)


class Normal(Kernel):
    """density exp(-u^2 / 2) / sqrt(2 pi). Width 1.349."""

    interquartile_range = 2 * 0.6744897501960817
    reach = (5.5, 8.5)

    def cdf(self, u: Tensor) -> Tensor:
        return 0.5 * torch.erfc(u * -math.sqrt(0.5))

    def density(self, u: Tensor) -> Tensor:
        return (u * u).mul_(-0.5).exp() / math.sqrt(2 * math.pi)

    def ramp(self, u: Tensor) -> Tensor:
        return _within(u, 40.0, lambda v: v * self.cdf(v) + self.density(v))  # inf * 0 outside

    def quantile(self, p: Tensor) -> Tensor:
        result: Tensor = torch.special.ndtri(p)
        return result

    def characteristic(self, w: Tensor) -> Tensor:
        return torch.exp(-0.5 * w * w)


class Uniform(Kernel):
    """density 1/2 on (-1, 1), 0 at the bounds. Width 1."""

    interquartile_range = 1.0
    reach = (1.0, 1.0)
    boxes = 1

    def cdf(self, u: Tensor) -> Tensor:
        return F.hardtanh(0.5 * (u + 1), 0.0, 1.0)

    def density(self, u: Tensor) -> Tensor:
        return (1 - u.abs()).clamp_(0, 1).ceil_().mul_(0.5)

    def ramp(self, u: Tensor) -> Tensor:
        return _within(u, 1.0, lambda v: 0.25 * (v + 1) ** 2)

    def quantile(self, p: Tensor) -> Tensor:
        return 2 * p - 1


class Triangular(Kernel):
    """density 1 - |u| on (-1, 1). Width 2 - sqrt(2)."""

    interquartile_range = 2 - math.sqrt(2)
    reach = (1.0, 1.0)
    boxes = 2

    def cdf(self, u: Tensor) -> Tensor:
        c = F.hardtanh(u, -1.0, 1.0)
        return 0.5 + c - 0.5 * c * c.abs()

    def density(self, u: Tensor) -> Tensor:
        return 1 - F.hardtanh(u, -1.0, 1.0).abs()

    def ramp(self, u: Tensor) -> Tensor:
        return _within(u, 1.0, lambda v: 1 / 6 + 0.5 * v + 0.5 * v * v - v * v * v.abs() / 6)

    def quantile(self, p: Tensor) -> Tensor:
        tail = 1 - torch.sqrt(2 * torch.minimum(p, 1 - p))
        return torch.where(p < 0.5, -tail, tail)


class Cauchy(Kernel):
    """density 1 / (pi (1 + u^2)), the derivative of arctan; no mean. Width 2."""

    interquartile_range = 2.0
    has_mean = False

    def cdf(self, u: Tensor) -> Tensor:
        return 0.5 + torch.atan(u) / math.pi

    def density(self, u: Tensor) -> Tensor:
        return (u * u).add_(1).mul_(math.pi).reciprocal()

    def ramp(self, u: Tensor) -> Tensor:
        a = _magnitude(u)
        small = torch.where(a > 1, 1, a)
        angle = torch.where(a > 1, torch.atan(1 / torch.where(a > 1, a, 1)), math.pi / 2 - torch.atan(small))
        log = torch.where(
            a > 1e4, torch.log(torch.where(a > 1e4, a, 1)), 0.5 * torch.log1p(torch.where(a > 1e4, 0, a) ** 2)
        )
        return torch.where(u >= 0, u, 0) - (a * angle + log) / math.pi

    def quantile(self, p: Tensor) -> Tensor:
        return torch.tan(math.pi * (p - 0.5))


class FastSigmoid(Kernel):
    """density 1 / (2 (1 + |u|)^2), the SuperSpike derivative (Zenke & Ganguli 2018); no mean. Width 2."""

    interquartile_range = 2.0
    has_mean = False

    def cdf(self, u: Tensor) -> Tensor:
        tail = 0.5 / (1 + _magnitude(u))
        return torch.where(u < 0, tail, 1 - tail)

    def density(self, u: Tensor) -> Tensor:
        return u.abs().add_(1).square().mul_(2).reciprocal()

    def ramp(self, u: Tensor) -> Tensor:
        return torch.where(u >= 0, u, 0) - 0.5 * torch.log1p(_magnitude(u))

    def quantile(self, p: Tensor) -> Tensor:
        return torch.where(p < 0.5, 1 - 0.5 / p, 0.5 / (1 - p) - 1)


def _magnitude(u: Tensor) -> Tensor:
    """|u| with the one-sided derivative 1 at 0, so that formulas in |u| keep theirs there."""
    return torch.where(u < 0, -u, u)


def _within(u: Tensor, edge: float, core: object) -> Tensor:
    """core(u) for |u| < edge, relu(u) beyond, without evaluating `core` outside."""
    inside = u.abs() < edge
    inner: Tensor = core(torch.where(inside, u, 0))  # type: ignore[operator]
    return torch.where(inside, inner, torch.where(u > 0, u, torch.where(u.isnan(), u, 0)))


KERNELS: dict[str, Kernel] = {
    "logistic": Logistic(),
    "normal": Normal(),
    "uniform": Uniform(),
    "triangular": Triangular(),
    "cauchy": Cauchy(),
    "fast_sigmoid": FastSigmoid(),
}
