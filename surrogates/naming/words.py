"""Checks words against the words that are known: one place for every string that a user gives."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question with the nearest of the known words, or an empty string."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def require_word(name: str, value: Any, known: Iterable[str]) -> None:
    """Raises ValueError for a word that is not known, TypeError for anything but a word."""
    known = tuple(known)
    if isinstance(value, str) and value in known:
        return
    kind, hint = (ValueError, did_you_mean(value, known)) if isinstance(value, str) else (TypeError, "")
    raise kind(f"{name} must be one of {', '.join(known)}; got {value!r}{hint}")
