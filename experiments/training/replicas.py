"""The interface of a trainer of R >= 1 replicas, as `Session` and `Validation` use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from experiments.config.settings import Settings
from experiments.data.dataset import Dataset
from experiments.measuring.gradients import GradientRecord

Values = dict[str, float]  # by tag


class Replicas(Protocol):
    """Trains R models, numbered from 0.

    `template` is one unstacked model of their architecture. `faults` describes each replica's first value that was not
    finite; `diverged` are the replicas that stop because of it. `records` hold which parameters received a gradient.
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
        """The seed of the noise; in a stack the seeds, (R,)."""

    @property
    def diverged(self) -> set[int]:
        """The replicas that stop because a value was not finite."""

    def advance(self) -> list[Values]:
        """Makes one optimizer step of all replicas; adds to `faults`.

        Returns each replica's logged values; an empty list if the step is not logged.
        """

    def batch(self, r: int, step: int) -> tuple[Tensor, Tensor]:
        """The samples of optimizer step `step`, counted from 1, of one replica."""

    def single(self, r: int) -> nn.Module:
        """One replica as an unstacked model, in its present state."""

    def weights(self, r: int) -> dict[str, Tensor]:
        """Copies of one replica's weights and buffers."""

    def load_weights(self, weights: Sequence[dict[str, Tensor]]) -> None:
        """Replaces the weights and buffers of all replicas."""

    def state(self, r: int) -> dict[str, Any]:
        """One replica's part of a checkpoint: plain containers and tensors."""

    def restore(self, states: Sequence[dict[str, Any]]) -> None:
        """Loads the replicas' parts of checkpoints, all of one step."""
