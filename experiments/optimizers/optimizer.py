"""The settings that all optimizers share: learning rate, decay, clipping and schedule."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import nn

from surrogates.float32 import LARGEST, require_float32


@dataclass(frozen=True)
class Optimizer:
    """A torch optimizer's settings, gradient clipping and learning-rate schedule.

    The learning rate grows linearly to `lr` over `warmup_steps`; then `schedule` keeps it (`constant`) or lowers it to
    0 at the end of training (`linear`, `cosine`). `clip_norm`: the largest total gradient norm, null for none.
    Raises ValueError if a rate, decay or limit is out of range.
    """

    lr: float
    weight_decay: float = 0.0
    clip_norm: float | None = None
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = 0

    def __post_init__(self) -> None:
        numbers = {field.name: getattr(self, field.name) for field in fields(self)}
        require_float32(**{name: value for name, value in numbers.items() if isinstance(value, float)})
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"lr must be positive and finite, got {self.lr}")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ValueError(f"weight_decay must be 0 or positive and finite, got {self.weight_decay}")
        if self.lr * self.weight_decay > LARGEST:
            raise ValueError(
                f"lr times weight_decay must be at most {LARGEST:.2g} (float32), "
                f"got lr={self.lr} and weight_decay={self.weight_decay}"
            )
        if self.clip_norm is not None and not (math.isfinite(self.clip_norm) and self.clip_norm > 0):
            raise ValueError(f"clip_norm must be positive and finite, or null for no clipping, got {self.clip_norm}")
        if not 0 <= self.warmup_steps < 2**63:
            raise ValueError(f"warmup_steps must be 0 or more, and below 2^63, got {self.warmup_steps}")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Builds the torch optimizer of these parameters."""
        raise NotImplementedError

    @property
    def scheduled(self) -> bool:
        """Whether the learning rate changes during training."""
        return self.schedule != "constant" or self.warmup_steps > 0

    def lr_at(self, step: int, max_steps: int) -> float:
        """Returns the learning rate of optimizer step `step`, counted from 0."""
        warm = min(1.0, (step + 1) / self.warmup_steps) if self.warmup_steps else 1.0
        progress = min(1.0, max(0, step - self.warmup_steps) / max(1, max_steps - self.warmup_steps))
        if self.schedule == "linear":
            warm *= 1 - progress
        elif self.schedule == "cosine":
            warm *= 0.5 * (1 + math.cos(math.pi * progress))
        return self.lr * warm


def require_share(name: str, value: float) -> None:
    """Raises ValueError if value is below 0, or 1 or more."""
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be at least 0 and below 1, got {value}")
