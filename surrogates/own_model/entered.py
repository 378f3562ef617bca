"""The blocks of `through` that a thread is in."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from surrogates.own_model.marks import Mark
from surrogates.own_model.replacer import Replacer


class _Entered(threading.local):
    """The replacers of the blocks that this thread is in, innermost last, and the entries of their marks."""

    def __init__(self) -> None:
        self.replacers: list[Replacer] = []
        self.marked: list[Mapping[Any, Mark]] = []


entered = _Entered()


def mark_of(x: Tensor) -> Mark | None:
    """The tensor's mark in the innermost block that has one; None if no derivative by its sources is recorded."""
    found = next((mark for replacer in reversed(entered.replacers) if (mark := replacer.marks.get(x))), None)
    return found if found and found.is_recorded else None
