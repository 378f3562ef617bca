"""The report of `through` and `convert`: the hard calls or modules that were replaced, and those that were not."""

from __future__ import annotations

import os
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import torch

from surrogates.naming.html import table

PASSED_OVER = tuple(f"{Path(file).parent}{os.sep}" for file in (torch.__file__, __file__))  # not torchvision
OWN = (
    "core", "graft", "hard_layer", "layers", "ops", "own_model.converted", "own_model.drawing", "own_model.handling",
    "own_model.marking", "strategies",
)  # fmt: skip
INTERNAL = tuple(f"surrogates.{name}" for name in OWN)


class Occurrence(NamedTuple):
    """A hard call or module, its fate (op and strategy, or the reason it was not replaced), and where it is."""

    call: str
    fate: str
    where: str


@dataclass
class Replacements:
    """Counts of hard calls or modules by name, fate and place; `str` gives a table."""

    replaced: Counter[Occurrence] = field(default_factory=Counter)
    not_replaced: Counter[Occurrence] = field(default_factory=Counter)

    @property
    def taken(self) -> Counter[Occurrence]:
        """`replaced`, by its former name."""
        return self.replaced

    @property
    def left(self) -> Counter[Occurrence]:
        """`not_replaced`, by its former name."""
        return self.not_replaced

    @staticmethod
    def move(row: Occurrence, counts: Counter[Occurrence], to_row: Occurrence, to_counts: Counter[Occurrence]) -> None:
        """Counts a row once less, and another once more."""
        counts[row] -= 1
        if not counts[row]:
            del counts[row]
        to_counts[to_row] += 1

    def __str__(self) -> str:
        return "\n".join([*_table("replaced", self.replaced), *_table("not replaced", self.not_replaced)])

    def _repr_html_(self) -> str:
        parts = ("replaced", self.replaced), ("not replaced", self.not_replaced)
        rows = [(title, n, *row) for title, counts in parts for row, n in counts.items()]
        return table("Hard calls and modules", ("", "count", "call", "op and strategy, or reason", "where"), rows)


def _table(title: str, rows: Counter[Occurrence]) -> list[str]:
    if not rows:
        return [f"{title}: none"]
    call, where = (max(len(row[i]) for row in rows) for i in (0, 2))
    lines = [f"{title}:"]
    for row, count in rows.items():
        start = f"{count:>5} x {row.call:<{call}}  {row.where:<{where}}  "
        lines += textwrap.wrap(
            row.fate, max(80, len(start) + 40), initial_indent=start, subsequent_indent=" " * min(len(start), 40)
        )
    return lines


def source() -> str | None:
    """File and line of the innermost caller outside torch; None if this library itself makes the call."""
    frame, found = sys._getframe(1), ""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(INTERNAL):
            return None
        path = frame.f_code.co_filename
        if not found and not path.startswith(PASSED_OVER):
            found = f"{os.path.basename(path)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return found


def is_called_by_torch() -> bool:
    """Whether the call that a block handles is made by torch's own code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "__torch_function__":
        frame = frame.f_back
    caller = frame and frame.f_back
    return caller is not None and caller.f_code.co_filename.startswith(PASSED_OVER[0])
