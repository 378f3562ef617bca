"""Reads and writes strict JSON: NaN and infinities become strings."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.tracking.atomic_file import replacing
from experiments.tracking.regular_file import read_bytes


class DamagedFile(ValueError):
    """Raised if a file lacks the expected content: its `path`, and the `fault` in words."""

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__(path, fault)
        self.path, self.fault = path, fault

    def __str__(self) -> str:
        return f"{self.path} {self.fault}"


def number(value: Any) -> float | None:
    """Converts a single number, or "NaN", "Infinity", "-Infinity", to a float64; None for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a tensor of several elements
        return None


def encode(value: Any, indent: int | None = None) -> str:
    """Encodes `value` as ASCII JSON text with the keys in the order given; floats read back bit for bit.

    Raises TypeError, with the key, if a value is not a mapping, list, tuple, text, number, bool or None.
    """
    return json.dumps(_plain(value, "value"), allow_nan=False, indent=indent)


def write_json(path: Path, value: Any) -> None:
    """Writes `encode(value)` to `path`, whole or not at all.

    Raises TypeError as `encode` does.
    """
    text = encode(value, indent=2) + "\n"
    with replacing(path) as file:
        file.write(text.encode())


def read_json(path: Path) -> Any:
    """Reads a file; NaN and infinities stay strings, which `number` converts.

    Raises DamagedFile if the file is not JSON or gives a key twice.
    Raises OSError if the file cannot be read.
    """
    try:
        return json.loads(read_bytes(path), object_pairs_hook=_unique)
    except RecursionError:
        raise DamagedFile(path, "is not valid JSON: it is nested too deeply") from None
    except ValueError as error:
        raise DamagedFile(path, f"is not valid JSON: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it gives a key twice")
    return found


def _plain(value: Any, where: str) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _name(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise TypeError(f"{where} is a {kind}, which JSON cannot hold; use text, a number, a list or a mapping")


def _name(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
