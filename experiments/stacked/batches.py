"""The training orders of R runs, gathered once an epoch instead of once a step and run."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from experiments.data.batches import Batches


class StackedBatches:
    """`batches[step]` holds the indices (R * B,) of optimizer step `step`, counted from 0: one run's after another's.

    All runs have batches of the same sizes; those of the same seed have the same ones.
    """

    def __init__(self, runs: Sequence[Batches]) -> None:
        self.runs, self.first = runs, runs[0]
        self._epoch, self._orders = -1, torch.empty(0, dtype=torch.int64)

    def __getitem__(self, step: int) -> Tensor:
        """Raises IndexError if `step` is negative."""
        epoch, batch = self.first.place(step)
        if epoch != self._epoch:
            own = {run.seed: run.order(epoch) for run in self.runs}
            self._epoch, self._orders = epoch, torch.stack([own[run.seed] for run in self.runs])
        return self._orders[:, batch].flatten()
