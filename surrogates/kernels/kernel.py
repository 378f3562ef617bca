"""The base class of noise laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class Kernel:
    """The symmetric law of a noise variable e; its methods keep the shape of u = x / T.

    `interquartile_range` is that of e, `peak` the largest value of its density, F'(0). Compare kernels at equal width,
    not at equal T.
    """

    has_mean: ClassVar[bool] = True
    boxes: ClassVar[int] = 0  # of a law of bounded support: how many uniform laws it is the sum of
    interquartile_range: ClassVar[float]
    peak: ClassVar[float]
    reach: ClassVar[tuple[float, float]] = (math.inf, math.inf)  # float32, float64: the cdf is exactly 0 or 1 beyond it

    def cdf(self, u: Tensor) -> Tensor:
        """F(u) = P(e <= u), the smooth step E[heaviside(u + e)]."""
        raise NotImplementedError

    def density(self, u: Tensor) -> Tensor:
        """F'(u), the density of e and the surrogate derivative."""
        raise NotImplementedError

    def cdf_and_density(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """The cdf and the density, to within the dtype's resolution of 1; may cost less than two calls."""
        return self.cdf(u), self.density(u)

    def ramp(self, u: Tensor) -> Tensor:
        """An antiderivative of the cdf; E[relu(u + e)] if e has a mean."""
        raise NotImplementedError

    def quantile(self, p: Tensor) -> Tensor:
        """F^-1(p) for p in (0, 1), which maps uniform noise to e."""
        raise NotImplementedError

    def characteristic(self, w: Tensor) -> Tensor:
        """E[cos(w e)]; only laws whose characteristic function decays exponentially define it."""
        raise NotImplementedError


def magnitude(u: Tensor) -> Tensor:
    """|u| with the one-sided derivative 1 at 0, so that formulas in |u| keep their derivative there."""
    return torch.where(u < 0, -u, u)


def relu_beyond(edge: float, core: Callable[[Tensor], Tensor], u: Tensor) -> Tensor:
    """core(u) for |u| < edge, relu(u) beyond; `core` is never evaluated outside."""
    inside = u.abs() < edge
    inner = core(torch.where(inside, u, 0))
    return torch.where(inside, inner, torch.where(u > 0, u, torch.where(u.isnan(), u, 0)))
