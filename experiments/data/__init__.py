"""Data sets: one option a module, each an in-memory `Dataset` of three fixed parts."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from experiments.data.dataset import Dataset, Option
from experiments.data.files import root_folder


def load(option: Option) -> Dataset:
    """The data set of `option`, read once a process for the last four options; raises DataError.

    Its tensors are shared by every run of a sweep in this process: do not write to them.
    """
    return _load(option, root_folder(option.root))


@lru_cache(maxsize=4)
def _load(option: Option, folder: Path) -> Dataset:  # `folder` keys the cache: a relative root may come to mean another
    return option.load()
