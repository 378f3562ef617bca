"""MNIST-1D: digits as one-dimensional signals, small but hard for linear models."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from experiments.data.dataset import DataError, Dataset, Part

TRAIN = 3_000  # of the 4000 official training samples; the rest are for validation


@dataclass(frozen=True)
class Mnist1d:
    """MNIST-1D (Greydanus and Kobak 2020, arXiv 2011.14439): signals of 40 values; parts of 3000/1000/1000.

    The authors' package generates it, with its defaults and seed 42, standardised over all 5000 samples; nothing is
    downloaded. The samples are shuffled already, so the end of the training part is used for validation.
    `root` and `download` are unused.
    """

    root: str | None = None  # unused
    download: bool = False  # unused

    classes: ClassVar[int] = 10
    input_shape: ClassVar[tuple[int, ...]] = (1, 40)

    def load(self) -> Dataset:
        """Generates the signals, which takes about two seconds.

        Raises DataError if `mnist1d` is not installed.
        """
        try:
            from mnist1d.data import make_dataset
        except ImportError as error:
            raise DataError(f"data set mnist1d: cannot import its generator ({error}): pip install mnist1d") from error
        with _global_generators_restored():
            raw = make_dataset()
        x = torch.from_numpy(np.concatenate([raw["x"], raw["x_test"]])).float().unsqueeze(1)
        y = torch.from_numpy(np.concatenate([raw["y"], raw["y_test"]])).long()
        sizes = [TRAIN, len(raw["x"]) - TRAIN, len(raw["x_test"])]
        return Dataset("mnist1d", 10, *map(Part, torch.split(x, sizes), torch.split(y, sizes)))


@contextmanager
def _global_generators_restored() -> Iterator[None]:
    """Restores the global generators of Python and numpy, which the package seeds and uses."""
    python, legacy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)
