"""MNIST-1D: digits as one-dimensional signals, small but hard for linear models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from experiments.data.dataset import Dataset, Part
from experiments.data.signals import Array, Signals

TRAIN, VAL, TEST = 3_000, 1_000, 1_000  # of the 5000 official samples; the first 4000 are the training part there


@dataclass(frozen=True)
class Mnist1d:
    """MNIST-1D (Greydanus and Kobak 2020, arXiv 2011.14439): signals of 40 values; parts of 3000/1000/1000.

    They are the published samples, generated with the authors' parameters and seed 42, standardised over all 5000;
    nothing is downloaded. The samples are shuffled already, so the end of the training part is used for validation.
    `test_samples` generates that many other test samples instead. `fresh` generates new training samples for each
    epoch of 3000, which seed and epoch alone determine; its fixed training part holds others that no run trains on.
    `root` and `download` are unused.
    """

    root: str | None = None  # unused
    download: bool = False  # unused
    test_samples: int | None = None  # None: the 1000 published ones
    fresh: bool = False  # whether no training sample is used twice

    classes: ClassVar[int] = 10
    input_shape: ClassVar[tuple[int, ...]] = (1, 40)

    def __post_init__(self) -> None:
        if self.test_samples is not None and not 1 <= self.test_samples < 2**31:
            raise ValueError(
                f"data set mnist1d: data.test_samples={self.test_samples} must be at least 1 and below 2^31, or null"
            )

    @property
    def samples(self) -> int:
        """Number of samples of all three parts."""
        return TRAIN + VAL + (self.test_samples or TEST)

    @property
    def epoch_samples(self) -> int:
        """Number of training samples that each run generates for an epoch."""
        return TRAIN if self.fresh else 0

    def load(self) -> Dataset:
        """Generates the signals, 20,000 in a tenth of a second.

        Raises DataError if `mnist1d` is not installed.
        """
        signals = Signals()
        raw, digits = signals.official()
        mean, std = raw.mean(), raw.std()

        def part(x: Array, y: Array) -> Part:
            return Part(torch.from_numpy((x - mean) / std).float().unsqueeze(1), torch.from_numpy(y).long())

        def epoch(seed: int, number: int) -> Part:
            return part(*signals.fresh(f"train {seed} {number}", TRAIN))

        train, val, test = (
            part(raw[rows], digits[rows]) for rows in (slice(TRAIN), slice(TRAIN, -TEST), slice(-TEST, None))
        )
        if self.test_samples is not None:
            test = part(*signals.fresh("test", self.test_samples))
        if not self.fresh:
            return Dataset("mnist1d", self.classes, train, val, test)
        return Dataset("mnist1d", self.classes, part(*signals.fresh("train", TRAIN)), val, test, epoch=epoch)
