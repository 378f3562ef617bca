"""Floor to a grid, optionally in a bounded range."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from surrogates.core import Op, flat, passing_between, rewriting
from surrogates.float32 import require_range
from surrogates.kernels import Kernel
from surrogates.staircases.expectation import unbounded_slope, unbounded_stairs
from surrogates.staircases.steps import bounded_slope, bounded_stairs

MOST_STEPS = 2**24  # between bounds, so that float32 holds every multiple


@dataclass(frozen=True)
class Floor(Op):
    """floor(x) = step * floor(x / step), then held in [low, high].

    Shape (...), elementwise; step, low and high in units of x. low and high are multiples of step, or both infinite (no
    bounds). The value is the largest multiple, as the dtype holds it, that is not above x: floor twice is floor once.
    Jumps at the multiples of step inside the bounds, where the derivative is 0 by definition.
    proxy: x, with bounds of derivative 0 outside [low, high], as for quantize.
    smooth: E[floor(x + T e)]. With bounds every kernel has it; without, the kernel needs a mean.
    rewrite: clamp(x - step/2, low, high), relaxed, without the op's mean error.
    Form `dither`: clamp(x - step U(0, 1), low, high), with the same mean a step away from the bounds.
    Raises ValueError if step is not positive, the bounds are not ordered multiples of it, or only one is finite.
    """

    step: float = 1.0
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.step > 0 and math.isfinite(self.step)):
            raise ValueError(f"step must be positive and finite, got {self.step}")
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got low={self.low} and high={self.high}")
        if math.isfinite(self.low) != math.isfinite(self.high):
            raise ValueError(f"low and high must be both finite or both infinite, got low={self.low}, high={self.high}")
        for name, bound in (("low", self.low), ("high", self.high)):
            if math.isfinite(bound) and abs(bound / self.step - round(bound / self.step)) > 1e-6:
                raise ValueError(f"{name} must be a multiple of step={self.step}, got {bound}")
        if self.bounded:
            self._require_steps()
            require_range(self.low, self.high, self._count())

    def _require_steps(self) -> None:
        if not 1 <= self._count() <= MOST_STEPS:
            fault = "wider than" if self._count() < 1 else "too small for float32 to hold its multiples in"
            raise ValueError(f"step is {fault} the range from low={self.low} to high={self.high}, got step={self.step}")

    def _count(self) -> int:
        """The number of steps between the bounds."""
        return round((self.high - self.low) / self.step)

    @property
    def bounded(self) -> bool:
        """Whether both bounds are finite."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def needs_mean(self) -> bool:  # type: ignore[override]
        """Without bounds the expectation exists only for kernels with a mean."""
        return not self.bounded

    @property
    def grid(self) -> float:
        return self.step

    def hard(self, x: Tensor) -> Tensor:
        if self.step == 1.0:
            point = torch.floor(x)
            return torch.clamp(point, self.low, self.high) if self.bounded else point
        wide = torch.promote_types(x.dtype, torch.float32)
        if math.frexp(self.step)[0] == 0.5:  # dividing by a power of two is exact
            point = (torch.floor(x.to(wide) / self.step) * self.step).to(x.dtype)
        else:
            n = torch.round(x.to(wide) / self.step)
            nearest, below = (n * self.step).to(x.dtype), ((n - 1) * self.step).to(x.dtype)
            point = torch.where(nearest > x, below, nearest)
        return torch.clamp(point.to(wide), self.low, self.high).to(x.dtype) if self.bounded else point

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return flat(x)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return passing_between(x, self.low, self.high) if self.bounded else x

    def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        if self.bounded:
            return bounded_stairs(x, kernel, T, self.low, self.low + self.step, self.step, self._count())
        return self.step * unbounded_stairs(x / self.step - 0.5, kernel, T / self.step)

    def slopes(self, x: Tensor, kernel: Kernel, T: Tensor) -> tuple[Tensor]:
        if self.bounded:
            return (bounded_slope(x, kernel, T, self.low + self.step, self.step, self._count()),)
        return (unbounded_slope(x / self.step - 0.5, kernel, T / self.step),)

    @rewriting("relaxed")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self._hold(x - 0.5 * self.step)

    @rewriting("relaxed", noisy=True)
    def rewrite_dither(self, x: Tensor, noise: Tensor) -> Tensor:
        """clamp(x - step U(0, 1), low, high): the clamp form's mean, with the op's own spread."""
        return self._hold(x - self.step * noise)

    def _hold(self, x: Tensor) -> Tensor:
        return torch.where(x < self.low, self.low, torch.where(x > self.high, self.high, x)) if self.bounded else x

    @property
    def range(self) -> tuple[float, float] | None:
        return (self.low, self.high) if self.bounded else None
