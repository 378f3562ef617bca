"""Orders the training samples: the seed alone fixes the batch of each step, so resuming needs no state."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def order(n: int, seed: int, epoch: int) -> Tensor:
    """Draws a permutation (n,) of 0..n-1, int64 on the CPU; it depends on the arguments only.

    It has its own generator, so a strategy's noise and the number of threads do not change it.
    """
    digest = hashlib.sha256(f"order {seed} {epoch}".encode()).digest()
    # torch seeds its CPU generator with the low 32 bits.
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:4], "little"))
    return torch.randperm(n, generator=generator)


class Batches:
    """The batches of a training part of `n` samples: `batches[step]` holds the indices of optimizer step `step`.

    Steps count from 0, through all epochs. Each epoch visits every sample once, in its own order. A short last batch
    is kept. A last batch of one sample is merged into the batch before it, because batch normalisation needs two
    samples; `note` tells the user.
    Raises ValueError if `batch_size` is below 1 or above `n`.
    """

    def __init__(self, n: int, batch_size: int, seed: int, device: torch.device | str = "cpu") -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size} must be at least 1")
        if batch_size > n:
            raise ValueError(f"batch_size={batch_size} is larger than the training part of {n} samples")
        self.n, self.batch_size, self.seed, self.device = n, batch_size, seed, torch.device(device)
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    @property
    def merges(self) -> bool:
        """Whether a last batch of one sample is merged into the batch before it."""
        return self.n % self.batch_size == 1

    @property
    def note(self) -> str:
        """Writes a note for the user about a merged batch; empty if none is merged."""
        if not self.merges:
            return ""
        return (
            f"the last batch of an epoch has {self.batch_size + 1} samples: {self.n} samples in batches of "
            f"{self.batch_size} leave one over, and batch normalisation needs two"
        )

    @property
    def per_epoch(self) -> int:
        """Optimizer steps of one epoch, at least 1."""
        full, rest = divmod(self.n, self.batch_size)
        return full + (rest > 0 and not self.merges)

    def __getitem__(self, step: int) -> Tensor:
        """Returns indices (B,) into the training part, int64 on `device`.

        Raises IndexError if `step` is negative.
        """
        epoch, batch = self.place(step)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self.order(epoch)
        return self._order[batch]

    def place(self, step: int) -> tuple[int, slice]:
        """Returns the epoch of optimizer step `step`, and which part of its order the batch is."""
        if step < 0:
            raise IndexError(f"step {step} does not exist: steps count from 0")
        epoch, position = divmod(step, self.per_epoch)
        start = position * self.batch_size
        return epoch, slice(start, self.n if position == self.per_epoch - 1 else start + self.batch_size)

    def order(self, epoch: int) -> Tensor:
        """Returns the order of an epoch (n,), int64 on `device`."""
        return order(self.n, self.seed, epoch).to(self.device)
