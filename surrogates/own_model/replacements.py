"""The report of `through` and `convert`: the hard calls or modules that were replaced, and those that were not."""

from __future__ import annotations

import os
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch

from surrogates.naming.html import table

PASSED_OVER = tuple(f"{Path(file).parent}{os.sep}" for file in (torch.__file__, __file__))  # not torchvision
OWN = ("core", "graft", "hard_layer", "layers", "ops", "own_model.converted", "own_model.handling", "strategies")
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
        lines += textwrap.wrap(row.fate, 80, initial_indent=start, subsequent_indent=" " * min(len(start), 40))
    return lines


def source() -> str | None:
    """File and line of the innermost caller outside torch; None if this library itself makes the call."""
    frame, found = sys._getframe(1), ""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(INTERNAL):
            return None
        path = frame.f_code.co_filename
        if not found and not path.startswith(PASSED_OVER):
            found = f"{Path(path).name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return found
