"""Checks keys and values of a configuration against the names and annotations of classes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

from typeguard import TypeCheckError, check_type

from surrogates.float32 import require_float32


class ConfigError(ValueError):
    """The configuration is wrong; the message says where and what would be right."""


def refuse_unknown(prefix: str, values: Iterable[str], known: list[str]) -> None:
    """Raises ConfigError, with a suggestion, if a key is not known."""
    for key in values:
        if key not in known:
            raise ConfigError(f"there is no key {prefix}{key}{suggestion(key, known, prefix)}")


def suggestion(word: str, known: Iterable[str], prefix: str = "") -> str:
    """A hint at the nearest known word, or the list of all."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f"; did you mean {prefix}{near[0]}?"
    return f"; choose from: {', '.join(known)}" if known else ""


def without_effect(keys: Iterable[str]) -> list[str]:
    """A note for each typed key that has no effect."""
    return [f"{key} has no effect here and is left out" for key in sorted(keys)]


def check_values(prefix: str, values: dict[str, Any], hints: dict[str, Any]) -> dict[str, Any]:
    """Checks each value against its annotation, and gives the values.

    Raises ConfigError if a value has another type.
    """
    return {key: _check_value(f"{prefix}{key}", value, hints.get(key, Any)) for key, value in values.items()}


def _check_value(name: str, value: Any, expected: Any) -> Any:
    """Checks a value. A whole number becomes a float where a float is expected: lr=1 and lr=1.0 are one run.

    Raises ConfigError if float32 cannot hold a float: torch would compute with another number, or fail in training.
    """
    try:
        if isinstance(value, bool) and not _takes(bool, expected):
            raise TypeCheckError("bool")
        check_type(value, expected)
        if isinstance(value, int) and not isinstance(value, bool) and not _takes(int, expected):
            value = float(value)
    except (TypeCheckError, OverflowError):
        kind = getattr(expected, "__name__", None) if isinstance(expected, type) else None
        raise ConfigError(f"{name} must be {kind or _readable(expected)}, got {value!r}") from None
    if isinstance(value, float):
        try:
            require_float32(**{name: value})
        except ValueError as error:
            raise ConfigError(str(error)) from None
    return value


def _takes(kind: type, expected: Any) -> bool:
    return expected is kind or expected is Any or kind in getattr(expected, "__args__", ())


def _readable(expected: Any) -> str:
    text = re.sub(r"Optional\[(.+)\]", r"\1 | null", str(expected).replace("typing.", ""))
    text = re.sub(r"Literal\[(.+?)\]", lambda found: f"one of {found[1]}", text)
    return text.replace("NoneType", "null").replace("None", "null")


def name_key(group: str, keys: Iterable[str], message: str) -> str:
    """A constructor's message; a key at its start gets the group's name in front."""
    first = re.match(r"\w+", message)
    return f"{group}.{message}" if group and first and first[0] in keys else message
