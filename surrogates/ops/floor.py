"""Floor to a grid, optionally in a bounded range."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from surrogates.core import Op, flat, rewriting
from surrogates.expectation import bounded_stairs, unbounded_stairs
from surrogates.kernels import Kernel


@dataclass(frozen=True)
class Floor(Op):
    """floor(x) = step * floor(x / step), then held in [low, high].

    Shape (...), elementwise; step, low and high in units of x, low and high multiples of step, or infinite (no
    bound). Jumps at the multiples of step inside the bounds, where the derivative is 0 by definition.
    proxy: x. smooth: E[floor(x + T e)]; with both bounds finite it exists for every kernel, else the kernel needs a
    mean. rewrite: clamp(x - step/2, low, high): the op is gone and the mean error with it, relaxed;
    form `dither`: x - step U(0, 1), the same mean.
    Raises ValueError for a step that is not positive or bounds that are not ordered multiples of it.
    """

    step: float = 1.0
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not (self.step > 0 and math.isfinite(self.step)):
            raise ValueError(f"step must be positive and finite, got {self.step}")
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got low={self.low} and high={self.high}")
        for name, bound in (("low", self.low), ("high", self.high)):
            if math.isfinite(bound) and abs(bound / self.step - round(bound / self.step)) > 1e-6:
                raise ValueError(f"{name} must be a multiple of step={self.step}, got {bound}")

    @property
    def bounded(self) -> bool:
        """Whether both bounds are finite."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def needs_mean(self) -> bool:  # type: ignore[override]
        """Without bounds the expectation exists only for kernels with a mean."""
        return not self.bounded

    def hard(self, x: Tensor) -> Tensor:
        return torch.clamp(torch.floor(x / self.step) * self.step, self.low, self.high)

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return flat(x)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return x

    def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        if self.bounded:
            count = round((self.high - self.low) / self.step)
            return self.low + self.step * bounded_stairs(x, kernel, T, self.low + self.step, self.step, count)
        stairs = self.step * unbounded_stairs(x / self.step - 0.5, kernel, T / self.step)
        return stairs

    @rewriting("relaxed")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        shifted = x - 0.5 * self.step
        return torch.where(shifted < self.low, self.low, torch.where(shifted > self.high, self.high, shifted))

    @rewriting("relaxed", noisy=True)
    def rewrite_dither(self, x: Tensor, noise: Tensor) -> Tensor:
        """x - step U(0, 1): the mean of the clamp form, with the op's own spread."""
        return x - self.step * noise
