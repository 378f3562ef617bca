"""Collects losses and clip flags since the last logged step, on the device, and moves them in one transfer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class WindowNumbers(NamedTuple):
    """The numbers of one replica: all losses, the share of clipped steps, and the numbers of other tensors."""

    losses: list[float]
    clipped: float
    others: list[float]


def to_numbers(tensors: Sequence[Tensor], replicas: int = 1) -> list[list[float]]:
    """Returns the numbers of tensors (R, ...) by replica, in order; moves all from the device at once."""
    parts = [tensor.to(tensors[0].device, torch.float64).reshape(replicas, -1) for tensor in tensors]
    rows: list[list[float]] = torch.cat(parts, dim=1).tolist()
    return rows


class LogWindow:
    """Losses (R,) of the steps since the last logged one, batch sizes, and flags (R,) of clipped gradients."""

    def __init__(self, device: str, replicas: int = 1) -> None:
        self.device, self.replicas = device, replicas
        self.clear()

    def clear(self) -> None:
        """Starts the next window."""
        self.losses: list[Tensor] = []
        self.sizes: list[int] = []
        self.clipped: list[Tensor] = []

    def add(self, losses: Tensor, size: int) -> None:
        """Adds a step's losses: means over the `size` samples of each replica's batch."""
        self.losses.append(losses.detach().reshape(self.replicas))
        self.sizes.append(size)

    def read(self, others: Sequence[Tensor]) -> list[WindowNumbers]:
        """Returns the numbers by replica, with those of other tensors (R, ...); moves all from the device at once."""
        steps, clipped = len(self.losses), self.clipped or [torch.zeros(self.replicas, device=self.device)]
        parts = [torch.stack(self.losses, 1), torch.stack(clipped, 1), *others]
        rows = to_numbers(parts, self.replicas)
        end = steps + len(clipped)
        return [WindowNumbers(row[:steps], sum(row[steps:end]) / len(clipped), row[end:]) for row in rows]

    def mean(self, losses: Sequence[float]) -> float:
        """Computes the mean loss over samples, so that a short batch counts less."""
        return sum(loss * size for loss, size in zip(losses, self.sizes, strict=True)) / sum(self.sizes)

    def state(self, r: int) -> dict[str, Any]:
        """Returns the part of replica r, for a checkpoint."""
        losses, clipped = ([row[r].clone() for row in rows] for rows in (self.losses, self.clipped))
        return {"losses": losses, "sizes": list(self.sizes), "clipped": clipped}

    def restore(self, states: Sequence[dict[str, Any]]) -> None:
        """Loads the replicas' parts."""
        self.sizes = list(states[0]["sizes"])
        self.losses, self.clipped = (
            [torch.stack(rows).to(self.device) for rows in zip(*(state[key] for state in states), strict=True)]
            for key in ("losses", "clipped")
        )
