"""Checks the strings that a user gives against the known words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question with the known word nearest to `word`, in any letters' size; empty if none is near."""
    by_small_letters = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_small_letters, n=1, cutoff=0.5)
    return f"; did you mean {by_small_letters[near[0]]!r}?" if near else ""


def require_word(name: str, value: Any, known: Iterable[str]) -> None:
    """Checks that a value is one of the known words.

    Raises ValueError if a word is unknown.
    Raises TypeError if the value is not a string.
    """
    known = tuple(known)
    if isinstance(value, str) and value in known:
        return
    kind, hint = (ValueError, did_you_mean(value, known)) if isinstance(value, str) else (TypeError, "")
    raise kind(f"{name} must be one of {', '.join(known)}; got {value!r}{hint}")
