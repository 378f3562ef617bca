"""Reads the lines of a CSV or JSONL file about runs made elsewhere, and checks their cells."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from experiments.compare.reading.run_files import comparable
from experiments.terminal.console import short_path
from experiments.tracking.flat_config import flatten
from experiments.tracking.run_errors import reason
from experiments.tracking.strict_json import number

KINDS = (".csv", ".jsonl")
_WHOLE = re.compile(r"[+-]?\d+(\.0*)?")
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class WrongTable(Exception):
    """Raised for a mistake in a table of runs; the message names the file, and the line and column if there are any."""

    def __init__(self, file: Path, fault: str) -> None:
        super().__init__(f"{short_path(file)}{fault}")


@dataclass(frozen=True)
class TableLine:
    """A line of a table, numbered from 1 as an editor does; `cells` has no entry for an empty cell."""

    file: Path
    number: int
    cells: Mapping[str, Any]

    def wrong(self, fault: str, column: str = "") -> WrongTable:
        """Returns the error for a fault of this line."""
        return WrongTable(self.file, f", line {self.number}{f', column {column}' * bool(column)}: {fault}")

    def text(self, column: str) -> str:
        """Returns a cell as text; empty for an empty cell."""
        return str(self.cells.get(column, ""))

    def require_text(self, column: str) -> str:
        """Returns a cell as text. Raises WrongTable for an empty cell."""
        if not self.text(column):
            raise self.wrong("the cell is empty", column)
        return self.text(column)

    def whole(self, column: str) -> int:
        """Returns a whole number. Raises WrongTable for any other cell."""
        said = self.require_text(column)
        if not _WHOLE.fullmatch(said):
            raise self.wrong(f"{said!r} is not a whole number", column)
        return int(said.partition(".")[0])

    def decimal(self, column: str) -> float | None:
        """Returns a number, NaN and infinities included; None for an empty cell. Raises WrongTable for any other."""
        if column not in self.cells:
            return None
        value = number(self.text(column))
        if value is None:
            raise self.wrong(f"{self.text(column)!r} is not a number; write decimals with a point", column)
        return value

    def flag(self, column: str) -> bool:
        """Returns true or false; an empty cell is false. Raises WrongTable for any other cell."""
        said = (self.text(column) or "false").lower()
        if said not in _FLAGS:
            raise self.wrong(f"{said!r} is neither true nor false", column)
        return _FLAGS[said]

    def setting(self, column: str) -> Any:
        """Returns a cell as a configured value: a number, true, false or text; None for an empty cell."""
        cell = self.cells.get(column)
        return _value(cell) if isinstance(cell, str) else comparable(cell)


def read_lines(file: Path) -> tuple[list[str], list[TableLine]]:
    """Reads the names of the columns, and the lines that are not blank.

    Raises WrongTable if the file cannot be read, is not UTF-8, has no line, or is no CSV or JSONL.
    """
    columns: list[str] = []
    try:
        with open(file, encoding="utf-8-sig", newline="") as text:
            lines = list((_from_csv if file.suffix.lower() == ".csv" else _from_jsonl)(file, text, columns))
    except OSError as error:
        raise WrongTable(file, f" cannot be read ({reason(error)})") from None
    except UnicodeDecodeError as error:
        fault = f"byte {error.start} is not UTF-8; save the file as UTF-8, in a spreadsheet as 'CSV UTF-8'"
        raise WrongTable(file, f": {fault}") from None
    if not lines:
        raise WrongTable(file, ": it has no run; a line is a run, with the columns strategy, seed and a metric")
    return columns, lines


def _from_csv(file: Path, text: TextIO, columns: list[str]) -> Iterator[TableLine]:
    reader = csv.reader(text, strict=True)
    try:
        columns += [name.strip() for name in next(reader, [])]
        _check_header(file, columns)
        for row in reader:
            cells = [cell.strip() for cell in row]
            line = TableLine(file, reader.line_num, {c: cell for c, cell in zip(columns, cells, strict=False) if cell})
            if len(row) not in (0, len(columns)):
                many = f"it has {len(row)} cells, the header has {len(columns)}"
                raise line.wrong(f"{many}; a cell with a comma needs double quotes")
            if line.cells:
                yield line
    except csv.Error as error:
        raise WrongTable(file, f", line {reader.line_num}: it is not CSV ({error})") from None


def _check_header(file: Path, columns: Sequence[str]) -> None:
    if len(columns) == 1 and (other := re.search(r"[;\t]", columns[0])):
        raise WrongTable(file, f", line 1: the cells are separated by {other[0]!r}; separate them by commas")
    for place, name in enumerate(columns, 1):
        if not name:
            fault = f"column {place} has no name; pandas leaves its index out with to_csv(..., index=False)"
            raise WrongTable(file, f", line 1: {fault}")
        if name in columns[: place - 1]:
            raise WrongTable(file, f", line 1: two columns have the name {name}")


def _from_jsonl(file: Path, text: TextIO, columns: list[str]) -> Iterator[TableLine]:
    for count, said in enumerate(text, 1):
        if not said.strip():
            continue
        try:
            row = flatten(json.loads(said))
        except (ValueError, AttributeError, RecursionError):
            raise WrongTable(file, f", line {count}: it is not a JSON object with a value for each column") from None
        columns += [name for name in row if name not in columns]
        yield TableLine(file, count, {name: value for name, value in row.items() if value not in (None, "")})


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        with suppress(ValueError, OverflowError):
            if math.isfinite(value := kind(text)):
                return value
    return text
