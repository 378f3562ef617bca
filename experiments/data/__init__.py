"""Data sets: one option a module, each an in-memory `Dataset` of three fixed parts."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from experiments.data.dataset import Dataset, Option
from experiments.data.files import root_folder


def load(option: Option) -> Dataset:
    """Loads the data set of `option`; a process keeps the last four.

    All runs of a sweep in this process share its tensors: do not write to them.
    Raises DataError if the data set is absent or damaged.
    """
    return _load(option, root_folder(option.root))


@lru_cache(maxsize=4)
def _load(option: Option, folder: Path) -> Dataset:  # `folder` is in the cache key: a relative root may change meaning
    return option.load()
