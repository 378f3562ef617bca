"""Losses and clip flags of the steps since the last logged one, on the device until they are moved in one transfer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class WindowNumbers(NamedTuple):
    """Of one replica: all losses, the share of clipped steps, and the numbers of other tensors."""

    losses: list[float]
    clipped: float
    others: list[float]


class LogWindow:
    """Losses (R,) of the steps since the last logged one, their batch sizes, and whose gradients were clipped (R,)."""

    def __init__(self, device: str, replicas: int = 1) -> None:
        self.device, self.replicas = device, replicas
        self.clear()

    def clear(self) -> None:
        """Starts the next window."""
        self.losses: list[Tensor] = []
        self.sizes: list[int] = []
        self.clipped: list[Tensor] = []

    def add(self, losses: Tensor, size: int) -> None:
        """Adds a step's losses, the means over the `size` samples of each replica's batch."""
        self.losses.append(losses.detach().reshape(self.replicas))
        self.sizes.append(size)

    def read(self, others: Sequence[Tensor]) -> list[WindowNumbers]:
        """By replica, with the numbers of other tensors (R, ...); moved from the device at once."""
        steps, clipped = len(self.losses), self.clipped or [torch.zeros(self.replicas, device=self.device)]
        parts = [torch.stack(self.losses, 1), torch.stack(clipped, 1), *(t.reshape(self.replicas, -1) for t in others)]
        rows = torch.cat([part.to(self.device, torch.float64) for part in parts], dim=1).tolist()
        end = steps + len(clipped)
        return [WindowNumbers(row[:steps], sum(row[steps:end]) / len(clipped), row[end:]) for row in rows]

    def mean(self, losses: Sequence[float]) -> float:
        """The mean loss over samples, not over batches: a short batch counts for less."""
        return sum(loss * size for loss, size in zip(losses, self.sizes, strict=True)) / sum(self.sizes)

    def state(self, r: int) -> dict[str, Any]:
        """The part of replica r, for a checkpoint."""
        losses, clipped = ([row[r].clone() for row in rows] for rows in (self.losses, self.clipped))
        return {"losses": losses, "sizes": list(self.sizes), "clipped": clipped}

    def restore(self, states: Sequence[dict[str, Any]]) -> None:
        """Loads the replicas' parts."""
        self.sizes = list(states[0]["sizes"])
        self.losses, self.clipped = (
            [torch.stack(rows).to(self.device) for rows in zip(*(state[key] for state in states), strict=True)]
            for key in ("losses", "clipped")
        )
