"""What is kept of the steps since the last logged one, on the device, until it is moved off in one transfer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Interval:
    """Losses of the steps since the last logged one, their batch sizes, and whether their gradients were clipped."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.clear()

    def clear(self) -> None:
        """Begins anew."""
        self.losses: list[Tensor] = []
        self.sizes: list[int] = []
        self.clipped: list[Tensor] = []

    def add(self, loss: Tensor, size: int) -> None:
        """One step's loss, the mean over its batch."""
        self.losses.append(loss.detach())
        self.sizes.append(size)

    def with_others(self, others: list[Tensor]) -> tuple[list[float], float, list[float]]:
        """All losses, the share of clipped steps, and other tensors' numbers, moved from the device at once."""
        clipped = self.clipped or [torch.zeros((), device=self.device)]
        parts = [torch.stack(self.losses), torch.stack(clipped), *(tensor.reshape(-1) for tensor in others)]
        numbers = torch.cat([part.to(self.device, torch.float64) for part in parts]).tolist()
        first, second = len(self.losses), len(self.losses) + len(clipped)
        return numbers[:first], sum(numbers[first:second]) / len(clipped), numbers[second:]

    def mean(self, losses: list[float]) -> float:
        """The mean loss over samples, not over batches: a short batch counts for less."""
        return sum(loss * size for loss, size in zip(losses, self.sizes, strict=True)) / sum(self.sizes)

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"losses": list(self.losses), "sizes": list(self.sizes), "clipped": list(self.clipped)}

    def restore(self, state: dict[str, Any]) -> None:
        """From a checkpoint."""
        self.losses = [loss.to(self.device) for loss in state["losses"]]
        self.sizes = list(state["sizes"])
        self.clipped = [clipped.to(self.device) for clipped in state["clipped"]]
