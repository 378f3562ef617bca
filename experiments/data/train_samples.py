"""The training samples of each optimizer step: of the fixed part, or of one that is generated for each epoch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from experiments.data.batches import Batches
from experiments.data.dataset import Dataset, Part


class TrainSamples:
    """The samples of R runs that train together, one run's after the other's.

    `batches` are the runs' orders, all of one length. Where the data set generates training samples, the seed of a
    run and the epoch alone determine them; so resuming needs no state.
    """

    def __init__(self, data: Dataset, batches: Sequence[Batches]) -> None:
        self.data, self.batches = data, batches
        self._epoch = -1
        self._parts: dict[int, Part] = {}  # of that epoch, by seed

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Returns the samples (R * B, *shape) and the labels (R * B,) of optimizer step `step`, counted from 0."""
        index = [own[step] for own in self.batches]
        if self.data.epoch is None:
            return self.data.train.batch(torch.cat(index))
        self._generate(self.batches[0].place(step)[0])
        pairs = [self._parts[own.seed].batch(rows) for own, rows in zip(self.batches, index, strict=True)]
        x, y = zip(*pairs, strict=True)
        return torch.cat(x), torch.cat(y)

    def _generate(self, epoch: int) -> None:
        if epoch != self._epoch:
            assert self.data.epoch is not None
            kind = self.data.train.x
            made = {seed: self.data.epoch(seed, epoch) for seed in {own.seed for own in self.batches}}
            self._parts = {seed: part.to(kind.device, kind.dtype) for seed, part in made.items()}
            self._epoch = epoch
