"""What varies between the jobs of a sweep, in the order of the columns in TensorBoard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from experiments.config.folder_names import override_key
from experiments.tracking.hparams import column

CLEAR = ("strategy", "component")  # keys whose values need no name


def variation(jobs: Iterable[Sequence[str]]) -> dict[str, list[str]]:
    """The typed values of each key that differs between jobs, from their overrides.

    A key that only some jobs set varies too: the others have its default.
    """
    settings = [typed_values(overrides) for overrides in jobs]
    keys = sorted({key for one in settings for key in one}, key=column)
    found = {key: dict.fromkeys(one.get(key) for one in settings) for key in keys}
    return {key: [value for value in values if value is not None] for key, values in found.items() if len(values) > 1}


def typed_values(overrides: Iterable[str]) -> dict[str, str]:
    """The values that overrides set, by key."""
    return {override_key(override): override.partition("=")[2] for override in overrides}


def in_words(overrides: Iterable[str], keys: Iterable[str]) -> str:
    """A job's values of the keys: `ste floor seed=0`."""
    values = typed_values(overrides)
    return " ".join(values[key] if key in CLEAR else f"{key}={values[key]}" for key in keys if key in values)
