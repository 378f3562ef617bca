"""Experiments: data, models, the training loop, tracking and evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import nn


def load(run: str | Path, which: Literal["best", "last"] = "best", device: str = "cpu") -> nn.Module:
    """The trained hard model of a run folder; see `experiments.training.loading.load`."""
    from experiments.training.loading import load

    return load(run, which, device)
