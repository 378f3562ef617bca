"""What is kept of the steps since the last logged one, of R replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from experiments.measuring.interval import Interval


class StackedInterval(Interval):
    """Losses (R,) of the steps since the last logged one, their batch sizes, and whose gradients were clipped (R,)."""

    def __init__(self, device: str, replicas: int) -> None:
        super().__init__(device)
        self.replicas = replicas

    def with_others(  # type: ignore[override]
        self, others: list[Tensor]
    ) -> tuple[list[list[float]], list[float], list[list[float]]]:
        """By replica: all losses, the share of clipped steps, other tensors' numbers; one transfer."""
        clipped = self.clipped or [torch.zeros(self.replicas, device=self.device)]
        rows = [row.to(self.device, torch.float64) for row in (*self.losses, *clipped, *others)]
        numbers = torch.stack(rows, dim=1).tolist()
        first, second = len(self.losses), len(self.losses) + len(clipped)
        return (
            [own[:first] for own in numbers],
            [sum(own[first:second]) / len(clipped) for own in numbers],
            [own[second:] for own in numbers],
        )

    def replica_state(self, r: int) -> dict[str, Any]:
        """What the checkpoint of a run alone would hold."""
        losses, clipped = ([row[r].clone() for row in rows] for rows in (self.losses, self.clipped))
        return {"losses": losses, "sizes": list(self.sizes), "clipped": clipped}

    def restore(self, states: Sequence[dict[str, Any]]) -> None:  # type: ignore[override]
        """From the replicas' states."""
        self.sizes = list(states[0]["sizes"])
        self.losses, self.clipped = (
            [torch.stack(rows).to(self.device) for rows in zip(*(state[key] for state in states), strict=True)]
            for key in ("losses", "clipped")
        )
