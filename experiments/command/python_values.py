"""Keyword arguments of Python as the overrides that a person would type."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.config.settings import GROUPS
from experiments.config.values import ConfigError
from experiments.sweep.listing import as_typed

KEY = re.compile(r"[+~]{0,2}[A-Za-z_][\w./@:-]*", re.ASCII)
CHOSEN = (*GROUPS, "experiment", "debug")  # keys whose value is the name of an option


def run_overrides(keys: Mapping[str, Any]) -> list[str]:
    """The overrides of one run; raises ConfigError for values that only a sweep can have."""
    return [f"{key}={_value_of_run(key, value)}" for key, value in _flat(keys)]


def sweep_overrides(keys: Mapping[str, Any]) -> list[str]:
    """The overrides of a sweep: a list, tuple, range or array is one value for each job."""
    return [f"{key}={_values_of_sweep(key, value)}" for key, value in _flat(keys)]


def refuse_flags(overrides: Sequence[Any]) -> None:
    """Raises ConfigError for a positional argument that is no override."""
    for override in overrides:
        if not isinstance(override, str) or override.startswith("-") or not ("=" in override or override[:1] == "~"):
            raise ConfigError(f"{override!r} is no override; write 'KEY=VALUE', or KEY=VALUE as a keyword argument")


def _flat(keys: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in keys.items():
        key = f"{prefix}{name}"
        if not KEY.fullmatch(key):
            raise ConfigError(f"{key!r} is no key")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{key}.")
        else:
            yield key, _plain(key, value)


def _plain(key: str, value: Any) -> Any:
    """The value made of Python's own types; raises ConfigError for any other."""
    if isinstance(value, range) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_plain(key, one) for one in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # numpy's numbers and arrays, torch's tensors
        return value.tolist()
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise ConfigError(f"{key} has a value of type {type(value).__name__}; give a number, text, None or a list")


def _value_of_run(key: str, value: Any) -> str:
    if isinstance(value, range) or (isinstance(value, list) and key in CHOSEN):
        raise ConfigError(f"{key} has several values, {value}; hardgrad.sweep makes a run of each")
    return as_typed(value)


def _values_of_sweep(key: str, value: Any) -> str:
    if isinstance(value, range):
        bounds = (value.stop,) if (value.start, value.step) == (0, 1) else (value.start, value.stop, value.step)
        return f"range({','.join(map(str, bounds[:2] if value.step == 1 else bounds))})"
    if value == []:
        raise ConfigError(f"{key} lists no value, so the sweep has no job")
    return ",".join(map(as_typed, value)) if isinstance(value, list) else as_typed(value)
