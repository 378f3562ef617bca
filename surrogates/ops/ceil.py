"""Ceiling to a grid, optionally in a bounded range."""

from dataclasses import dataclass

import torch
from torch import Tensor

from surrogates.core import rewriting
from surrogates.kernels import Kernel
from surrogates.ops.floor import Floor


@dataclass(frozen=True)
class Ceil(Floor):
    """ceil(x) = -floor(-x): step * ceil(x / step), then held in [low, high].

    Shape (...), elementwise; step, low and high in units of x, as for floor. The value is the smallest multiple, as the
    dtype holds it, that is not below x.
    Jumps at the multiples of step inside the bounds, where the derivative is 0 by definition.
    proxy: floor's.
    smooth: E[ceil(x + T e)], floor's mirrored, as e is symmetric. With bounds every kernel has it; without, the kernel
    needs a mean.
    rewrite: clamp(x + step/2, low, high), relaxed, without the op's mean error.
    Form `dither`: clamp(x + step U(0, 1), low, high), with the same mean a step away from the bounds.
    Raises ValueError if step is not positive, the bounds are not ordered multiples of it, or only one is finite.
    """

    def hard(self, x: Tensor) -> Tensor:
        return torch.ceil(x) if self.step == 1.0 and not self.bounded else -self._mirror().hard(-x)

    def smooth(self, x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        return -self._mirror().smooth(-x, kernel, T)

    def slopes(self, x: Tensor, kernel: Kernel, T: Tensor) -> tuple[Tensor]:
        return self._mirror().slopes(-x, kernel, T)

    @rewriting("relaxed")
    def rewrite(self, x: Tensor, noise: None = None) -> Tensor:
        return self._hold(x + 0.5 * self.step)

    @rewriting("relaxed", noisy=True)
    def rewrite_dither(self, x: Tensor, noise: Tensor) -> Tensor:
        """clamp(x + step U(0, 1), low, high): the clamp form's mean, with the op's own spread."""
        return self._hold(x + self.step * noise)

    def _mirror(self) -> Floor:
        return Floor(self.step, -self.high, -self.low)
