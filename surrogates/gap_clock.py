"""A clock for temperature schedules that stands still while the soft value is close enough to the hard one."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class GapClock(nn.Module):
    """Share of training that counts for the schedule: a step counts if the gap measured before it was above `target`.

    The gap is mean |soft - hard| over a forward pass, in units of the op's output. All of the clock's state is in its
    buffer (progress seen, progress counted, gap), so a checkpoint holds it. Reading the clock waits for the device.
    """

    state: Tensor

    def __init__(self, target: float) -> None:
        super().__init__()
        self.target = target
        self.register_buffer("state", torch.tensor([0.0, 0.0, math.inf], dtype=torch.float64))

    def measure(self, soft: Tensor, hard: Tensor) -> None:
        """Takes the gap of a forward pass."""
        with torch.no_grad():
            self.state[2] = (soft.detach() - hard.detach()).double().abs().mean()

    def forward(self, progress: float) -> float:
        """What counts at this share of training, which is not below the one asked for before."""
        seen, counted, gap = (float(number) for number in self.state.tolist())
        if not gap <= self.target:
            counted += progress - seen
        self.state[:2] = torch.tensor([progress, counted], dtype=torch.float64)
        return counted

    def extra_repr(self) -> str:
        """The target."""
        return f"target={self.target}"
