"""Clamping to an interval."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, in_float32, passing, rewriting
from surrogates.float32 import require_range
from surrogates.kernels import Kernel
from surrogates.staircases.recompute import recompute

FAR = -1e30  # as good as infinity, and finite over T


@dataclass(frozen=True)
class Clamp(Op):
    """clamp(x) = low if x < low, high if x > high, else x.

    Shape (...), elementwise.
    Kinks at both bounds, the same on every torch (its own derivative there changed from 1 to 0 between 2.13 and 2.14):
    `minimum_norm` 0; `left` 0 at low and 1 at high; `right` 1 at low and 0 at high.
    proxy: x, also outside the bounds.
    smooth: E[clamp(x + T e)], every kernel.
    rewrite: low + relu(high - low - relu(high - x)), exact, derivative 0 at both bounds. One relu follows the other,
    because their difference, as in PACT's formula, cancels for large x.
    Raises ValueError unless low < high are finite and apart in float32.
    """

    low: float = 0.0
    high: float = 1.0
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm", "left", "right")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range(self.low, self.high)

    def hard(self, x: Tensor) -> Tensor:
        return in_float32(torch.clamp, x, min=self.low, max=self.high)  # float16 may not hold a bound

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        above = x >= self.low if rule == "right" else x > self.low
        below = x <= self.high if rule == "left" else x < self.high
        return passing(x, above & below)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return x

    def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        return recompute(x, T, lambda x, T: self._mean(x, kernel, T), lambda x, T: self._slope(x, kernel, T))

    def slopes(self, x: Tensor, kernel: Kernel, T: Tensor) -> tuple[Tensor]:
        return (self._slope(x, kernel, T),)

    def _mean(self, x: Tensor, kernel: Kernel, T: Tensor) -> Tensor:
        inward, side, half = self._inward(x)
        missing = T * (kernel.ramp((inward + half) / T) - kernel.ramp((inward - half) / T))
        return 0.5 * (self.low + self.high) + side * (half - missing)

    def _slope(self, x: Tensor, kernel: Kernel, T: Tensor) -> Tensor:
        inward, _, half = self._inward(x)
        return kernel.cdf((inward + half) / T) - kernel.cdf((inward - half) / T)

    def _inward(self, x: Tensor) -> tuple[Tensor, Tensor, float]:
        """Minus the distance from the middle, so that neither ramps nor cdfs cancel; the side; half the width."""
        middle = 0.5 * (self.low + self.high)
        side = 1 - 2 * (x < middle).to(x.dtype)
        return torch.clamp((middle - x) * side, min=FAR), side, 0.5 * (self.high - self.low)

    @rewriting("exact")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self.low + torch.relu((self.high - self.low) - torch.relu(self.high - x))

    @property
    def range(self) -> tuple[float, float]:
        return self.low, self.high
