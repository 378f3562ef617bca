"""Temperature schedules: T as a function of the share of training done, from `start` to a floor `end` > 0.

`GapClock` counts only the steps with a large soft-to-hard gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from surrogates.naming.member import Member

SMALLEST = 1e-12  # keeps x / T and the second derivatives, of order 1 / T^2, in the range of float32
LARGEST = 1e12

ScheduleName = Literal["constant", "linear", "exponential", "cosine", "sigmoid"]


@dataclass(frozen=True)
class Schedule(Member):
    """T(progress) for progress in [0, 1], in units of the op's input; reaches both ends exactly.

    Raises ValueError if an end is not between SMALLEST and LARGEST.
    """

    start: float
    end: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("start", self.start), ("end", self.end)):
            require_temperature(name, value)

    def __call__(self, progress: float) -> float:
        """The temperature at a share of training; progress is clamped to [0, 1]."""
        return self.interpolate(min(max(progress, 0.0), 1.0))

    def interpolate(self, progress: float) -> float:
        """The temperature at a share of training in [0, 1]."""
        raise NotImplementedError


class Constant(Schedule):
    """T = start."""

    def interpolate(self, progress: float) -> float:
        return self.start


class Linear(Schedule):
    """T = start + (end - start) p."""

    def interpolate(self, progress: float) -> float:
        return (1 - progress) * self.start + progress * self.end


class Exponential(Schedule):
    """T = start (end / start)^p."""

    def interpolate(self, progress: float) -> float:
        return float(self.start ** (1 - progress) * self.end**progress)


class Cosine(Schedule):
    """T = end + (start - end) (1 + cos(pi p)) / 2."""

    def interpolate(self, progress: float) -> float:
        share = 0.5 * (1 + math.cos(math.pi * progress))
        return share * self.start + (1 - share) * self.end


class Sigmoid(Schedule):
    """T = end + (start - end) (1 - tanh(5 (p - 0.5)) / tanh(2.5)) / 2.

    PARQ's annealing curve (Jin et al. 2025, arXiv 2503.15748): a logistic curve of steepness 10.
    """

    def interpolate(self, progress: float) -> float:
        share = 0.5 - 0.5 * math.tanh(5 * (progress - 0.5)) / math.tanh(2.5)
        return share * self.start + (1 - share) * self.end


SCHEDULES: dict[str, type[Schedule]] = {
    "constant": Constant,
    "linear": Linear,
    "exponential": Exponential,
    "cosine": Cosine,
    "sigmoid": Sigmoid,
}


def shares_done(step: int, steps: int, epoch: int) -> tuple[float, float]:
    """The shares of training done before optimizer step `step` of `steps`, and before its epoch of `epoch` steps.

    Steps count from 1. The first step has the share 0, the last has 1.
    """
    last = max(1, steps - 1)
    return (step - 1) / last, ((step - 1) - (step - 1) % epoch) / last


def require_temperature(name: str, value: float | None) -> None:
    """Raises ValueError unless the temperature is between SMALLEST and LARGEST."""
    if value is None or not SMALLEST <= value <= LARGEST:
        raise ValueError(
            f"{name} must be a positive, finite number of at least {SMALLEST} and at most {LARGEST}, got {value}; "
            "T divides and cannot be 0, a smaller T is harder"
        )


class GapClock(nn.Module):
    """The share of training that counts for the schedule: a step counts if the gap measured before it exceeds `target`.

    The gap is mean |soft - hard| over a forward pass, in units of the op's output. The clock's whole state is its
    buffer (progress seen, progress counted, gap), so a checkpoint holds it. Reading the clock waits for the device once
    a step, as the next temperature depends on the gap.
    """

    state: Tensor

    def __init__(self, target: float) -> None:
        super().__init__()
        self.target = target
        self.register_buffer("state", torch.tensor([0.0, 0.0, math.inf], dtype=torch.float64))

    def measure(self, soft: Tensor, hard: Tensor) -> None:
        """Measures the gap of a forward pass."""
        with torch.no_grad():
            self.state[2] = (soft.detach() - hard.detach()).double().abs().mean()

    def forward(self, progress: float) -> float:
        """The share that counts at a share of training; progress must not decrease."""
        seen, counted, gap = (float(number) for number in self.state.tolist())
        if not gap <= self.target:
            counted += progress - seen
        self.state[0], self.state[1] = progress, counted  # two fills, as copying a tensor of both would wait again
        return counted

    def extra_repr(self) -> str:
        """The target."""
        return f"target={self.target}"
