"""Uniform quantization to 2^bits values."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from surrogates.core import Op, flat, in_float32, passing_between, rewriting
from surrogates.float32 import require_range
from surrogates.kernels import Kernel
from surrogates.staircases.steps import bounded_slope, bounded_stairs


@dataclass(frozen=True)
class Quantize(Op):
    """quantize(x) = low + step * round((clamp(x, low, high) - low) / step), step = (high - low) / (2^bits - 1).

    Shape (...), elementwise; 2^bits values, low and high among them.
    Jumps half-way between neighbours, where the derivative is 0 by definition. Halves round to even multiples of the
    step.
    proxy: x inside [low, high], else constant. The mask is taken on the unrounded value; it includes the bounds, or
    excludes them with `bounds="strict"` (as LSQ does, Esser et al. 2020, arXiv 1902.08153).
    smooth: E[quantize(x + T step e)], T in units of one step, every kernel. Memory does not grow with 2^bits; time
    grows only up to the steps that the kernel reaches.
    rewrite: clamp(x + U(-step/2, step/2), low, high) (additive noise; Balle et al. 2017, arXiv 1611.01704), relaxed.
    Raises ValueError if bits is outside 1 to 16, or the range is empty, not finite, or too narrow for float32 to tell
    its values apart.
    """

    bits: int = 4
    low: float = 0.0
    high: float = 1.0
    bounds: Literal["inclusive", "strict"] = "inclusive"

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.bits) is not int or not 1 <= self.bits <= 16:
            raise ValueError(f"bits must be a whole number between 1 and 16, got {self.bits}")
        require_range(self.low, self.high, self.steps)

    @property
    def steps(self) -> int:
        """The number of steps between low and high."""
        return int(2**self.bits - 1)

    @property
    def step(self) -> float:
        """The distance between neighbouring values, in units of x."""
        return (self.high - self.low) / self.steps

    @property
    def temperature_unit(self) -> float:
        return self.step

    @property
    def grid(self) -> float:
        return self.step

    def hard(self, x: Tensor) -> Tensor:
        return in_float32(self._nearest, x)

    def _nearest(self, x: Tensor) -> Tensor:
        held = torch.clamp(x, self.low, self.high)
        offset = held - self.low if self.low else held
        value = torch.round(offset / self.step) * self.step
        return value + self.low if self.low else value

    def subgradient(self, x: Tensor, rule: str) -> Tensor:
        return flat(x)

    def proxy(self, x: Tensor, T: Tensor | float) -> Tensor:
        return passing_between(x, self.low, self.high, strict=self.bounds == "strict")

    def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        first = self.low + 0.5 * self.step
        return bounded_stairs(x, kernel, T * self.step, self.low, first, self.step, self.steps)

    def slopes(self, x: Tensor, kernel: Kernel, T: Tensor) -> tuple[Tensor]:
        return (bounded_slope(x, kernel, T * self.step, self.low + 0.5 * self.step, self.step, self.steps),)

    @rewriting("relaxed", noisy=True)
    def rewrite(self, x: Tensor, noise: Tensor) -> Tensor:
        y = x + self.step * (noise - 0.5)
        return torch.where(y < self.low, self.low, torch.where(y > self.high, self.high, y))

    @property
    def range(self) -> tuple[float, float]:
        return self.low, self.high
