"""Sums over the steps of a bounded staircase: E[stairs(x + T e)] and E[table(x + T e)], in bounded memory.

Beyond the kernel's reach a step counts exactly 0 or 1. So if T can be read, only a window of steps around x is summed,
with the same result. The window moves with x and stays inside the staircase.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from surrogates.kernels import Kernel
from surrogates.known import readable
from surrogates.staircases.recompute import recompute

TOGETHER = 2**18, 2**20  # numbers in a block: on a CPU, to fit its cache; on a GPU or in a compiled graph


def bounded_stairs(
    x: Tensor, kernel: Kernel, T: Tensor | float, low: float, first: float, step: float, count: int
) -> Tensor:
    """low + step sum_j F((x - first - j step) / T), j = 0 .. count - 1: the expected height, for every kernel."""
    steps = Steps(kernel, first, step, count, width(kernel, x, T, step, count))
    return recompute(x, T, lambda x, T: low + step * steps.passed(x, T), lambda x, T: step * steps.slope(x, T))


def bounded_slope(x: Tensor, kernel: Kernel, T: Tensor, first: float, step: float, count: int) -> Tensor:
    """The derivative of `bounded_stairs` by x."""
    steps = Steps(kernel, first, step, count, width(kernel, x, T, step, count))
    return step * steps.slope(x, T)


def width(kernel: Kernel, x: Tensor, T: Tensor | float, step: float, count: int, worth: float = 1.0) -> int:
    """The number of steps summed: those that the kernel reaches if they are fewer than `worth` of all, else all."""
    temperature = readable(T)
    reach = kernel.reach[x.dtype == torch.float64]
    if temperature is None or not math.isfinite(reach * temperature):
        return count
    window = 2 * math.ceil(reach * temperature / step + 0.5)
    return window if window < worth * count else count


@dataclass(frozen=True)
class Steps:
    """`count` steps at first + j step, of which `width` around x are summed."""

    kernel: Kernel
    first: float
    step: float
    count: int
    width: int

    def start(self, x: Tensor) -> Tensor:
        """The number of steps before the window, in x's dtype; NaN where x is NaN."""
        nearest = torch.floor((x - (self.first - self.step)) / self.step)
        return torch.clamp(nearest - self.width // 2, 0, self.count - self.width)

    def passed(self, x: Tensor, T: Tensor) -> Tensor:
        """The expected number of steps passed."""
        distance, passed = x - self.first, torch.zeros_like(x)
        if self.width < self.count:
            passed = self.start(x)
            distance = distance - passed * self.step
        for u in self.blocks(distance, T):
            passed = passed + self.kernel.cdf(u).sum(0)
        return passed

    def slope(self, x: Tensor, T: Tensor) -> Tensor:
        """The derivative of `passed` by x."""
        distance = x - self.first
        if self.width < self.count:
            distance = distance - self.start(x) * self.step
        total = torch.zeros_like(x)
        for u in self.blocks(distance, T):
            total = total + self.kernel.density(u).sum(0)
        return total / T

    def blocks(self, distance: Tensor, T: Tensor) -> Iterator[Tensor]:
        """(distance - k step) / T for the window's steps k, along a new first dimension, in cache-sized blocks."""
        offsets = self.step * torch.arange(self.width, dtype=distance.dtype, device=distance.device)
        at_once = max(1, TOGETHER[distance.is_cuda or torch.compiler.is_compiling()] // max(1, distance.numel()))
        sharpness = 1 / T
        for block in torch.split(offsets, at_once):
            u = distance - block.reshape(-1, *[1] * distance.dim())
            yield u * sharpness
