"""What a session and its validation need of a trainer, which trains R >= 1 replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from experiments.config.settings import Settings
from experiments.data.dataset import Dataset
from experiments.measuring.gradients import GradientRecord

Values = dict[str, float]  # by tag


class Replicas(Protocol):
    """R models in training, numbered from 0.

    `template` is a model of their architecture, alone. `faults` says what was first not finite in a replica; `diverged`
    are the replicas that stop for that. `records` say which parameters ever received a gradient.
    """

    engine: str
    model: nn.Module
    template: nn.Module
    data: Dataset
    settings: Settings
    replicas: int
    step: int
    skipped: int
    faults: dict[int, str]
    records: list[GradientRecord]

    @property
    def key(self) -> int | Tensor:
        """The seed of their noise, or seeds (R,)."""

    @property
    def diverged(self) -> set[int]:
        """The replicas that stop."""

    def advance(self) -> list[Values]:
        """One optimizer step of all; what is logged at it by replica, or an empty list. Adds to `faults`."""

    def batch(self, r: int, step: int) -> tuple[Tensor, Tensor]:
        """The samples of optimizer step `step`, counted from 1, of one replica."""

    def single(self, r: int) -> nn.Module:
        """One replica as a model alone, as this step of training left it."""

    def weights(self, r: int) -> dict[str, Tensor]:
        """One replica's weights and buffers, copied."""

    def load_weights(self, weights: Sequence[dict[str, Tensor]]) -> None:
        """Replaces the weights and buffers of all."""

    def state(self, r: int) -> dict[str, Any]:
        """One replica's part of a checkpoint: plain containers and tensors."""

    def restore(self, states: Sequence[dict[str, Any]]) -> None:
        """Loads the replicas' parts, all of one step."""
