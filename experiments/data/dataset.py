"""Data sets: three fixed parts of tensors, which are checked once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor


class DataError(RuntimeError):
    """Raised if the data set is absent, damaged or malformed; the message says what, where, and what is needed."""


class Option(Protocol):
    """The interface of the options of `conf/data`: frozen dataclasses that know their shapes before loading."""

    @property
    def root(self) -> str | None:
        """Folder of the files; None means `data` in the folder where the program was started."""

    @property
    def download(self) -> bool:
        """Whether absent or damaged files are downloaded."""

    @property
    def classes(self) -> int:
        """Number of classes; labels are 0..classes-1."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample, channels first."""

    def load(self) -> Dataset:
        """Reads the parts.

        Raises DataError if files are absent or damaged.
        """

    def __hash__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Part:
    """Samples `x` (N, *shape), float32 or float64, and their labels `y` (N,), int64.

    Runs share them: do not write to them.
    """

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return self.x.shape[0]

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the samples (B, *shape) and labels (B,) at `index` (B,), an int64 tensor on the part's device."""
        return self.x.index_select(0, index), self.y.index_select(0, index)

    def start(self, count: int) -> Part:
        """Returns the first `count` samples, or all if there are fewer."""
        return Part(self.x[:count], self.y[:count])

    def to(self, device: torch.device | str, dtype: torch.dtype = torch.float32) -> Part:
        """Returns the part on `device`, with samples in `dtype`."""
        return Part(self.x.to(device, dtype), self.y.to(device))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Three parts that depend on the data set alone, never on a run's seed.

    `epoch`, if there is one, generates the training samples of a seed and an epoch, as many as `train` has.
    Raises DataError if a part is empty, a shape or dtype is wrong, a sample is not finite or a label is not in
    0..classes-1. Labels that some losses ignore (-1, -100) are refused too: a batch of them has loss NaN.
    """

    name: str
    classes: int
    train: Part
    val: Part
    test: Part
    epoch: Callable[[int, int], Part] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name, part in self.parts.items():
            where = f"data set {self.name}, part {name}"
            _check_samples(where, part, self.input_shape)
            _check_labels(where, part, self.classes)

    @property
    def parts(self) -> dict[str, Part]:
        """Returns the parts by name: train, val, test."""
        return {"train": self.train, "val": self.val, "test": self.test}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample, channels first."""
        return tuple(self.train.x.shape[1:])

    def hashes(self) -> dict[str, str]:
        """SHA-256 (64 hex digits) of each part, over the bytes of x, then of y; computed once."""
        return dict(self._hashes)

    @cached_property
    def _hashes(self) -> dict[str, str]:
        return {name: _sha256(part.x, part.y) for name, part in self.parts.items()}

    def to(self, device: torch.device | str, dtype: torch.dtype = torch.float32) -> Dataset:
        """Returns the data set on `device`, with samples in `dtype`; itself if nothing changes."""
        if self.train.x.device == torch.device(device) and self.train.x.dtype == dtype:
            return self
        parts = (part.to(device, dtype) for part in self.parts.values())
        return Dataset(self.name, self.classes, *parts, epoch=self.epoch)


def _sha256(*tensors: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.cpu().contiguous().numpy().data)
    return digest.hexdigest()


def _check_samples(where: str, part: Part, shape: tuple[int, ...]) -> None:
    x = part.x
    if x.dtype not in (torch.float32, torch.float64) or x.dim() < 2 or tuple(x.shape[1:]) != shape:
        raise DataError(
            f"{where}: x is {x.dtype} {tuple(x.shape)}, should be float32 or float64 (N, *shape), shape {shape}"
        )
    if x.numel() == 0:
        raise DataError(f"{where}: x has shape {tuple(x.shape)}; there should be at least one sample with one value")
    if not torch.stack(x.aminmax()).isfinite().all():  # aminmax propagates NaN, and needs no mask of the size of x
        index = int((~x.isfinite()).reshape(len(x), -1).any(1).nonzero()[0])
        values = x[index].flatten()
        bad = float(values[~values.isfinite()][0])
        raise DataError(f"{where}: sample {index} holds {bad}; every value should be finite")


def _check_labels(where: str, part: Part, classes: int) -> None:
    y = part.y
    if y.dtype != torch.int64 or y.shape != part.x.shape[:1]:
        raise DataError(f"{where}: y is {y.dtype} {tuple(y.shape)}, should be torch.int64 ({len(part)},)")
    outside = (y < 0) | (y >= classes)
    if outside.any():
        index = int(outside.nonzero()[0])
        raise DataError(f"{where}: label {int(y[index])} at index {index} should be in 0..{classes - 1}")
