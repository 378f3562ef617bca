"""The answer to a question: what was expected, what was measured, and the files with both."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments.tracking.outputs import save_figure, write_text


@dataclass(frozen=True)
class Check:
    """One expectation, the measured result, and the verdict; `otherwise` is printed if the expectation does not hold.

    `holds` is None if the intervals do not decide.
    """

    expected: str
    measured: str
    holds: bool | None
    otherwise: str = ""

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return {True: "as expected", False: "not as expected", None: "undecided"}[self.holds]


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first cell of a row is its name."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Answer:
    """Checks and tables, remarks on their limits, and a matplotlib figure."""

    checks: Sequence[Check]
    tables: Sequence[Table] = ()
    remarks: str = ""
    figure: Any = field(default=None, compare=False)

    def write(self, folder: Path) -> None:
        """Writes answer.json and, if there is a figure, figure.svg and figure.png.

        Raises OutputFailed if a file cannot be written.
        """
        plain = {"checks": [asdict(c) for c in self.checks], "tables": [asdict(t) for t in self.tables]}
        if self.figure is not None:
            save_figure(self.figure, folder / "figure.svg", metadata={"Date": None})
            save_figure(self.figure, folder / "figure.png", dpi=110)
        text = json.dumps({**plain, "remarks": self.remarks}, indent=1, ensure_ascii=False)
        write_text(folder / "answer.json", text)


def read(folder: Path) -> Answer:
    """Reads a written answer, without its figure.

    Raises FileNotFoundError if there is none.
    """
    plain = json.loads((folder / "answer.json").read_text())
    checks = [Check(**check) for check in plain["checks"]]
    return Answer(checks, [Table(**table) for table in plain["tables"]], plain["remarks"])


def markdown(answer: Answer) -> str:
    """Returns the checks as a table, a sentence for each check that does not hold, then tables and remarks."""
    lines = ["| expected | measured | |", "|---|---|---|"]
    lines += [
        f"| {c.expected} | {c.measured} | {c.verdict if c.holds else f'**{c.verdict}**'} |" for c in answer.checks
    ]
    parts = ["\n".join(lines), *(c.otherwise for c in answer.checks if c.holds is False and c.otherwise)]
    for table in answer.tables:
        head = ["| " + " | ".join(table.head) + " |", "|---|" + "---:|" * (len(table.head) - 1)]
        rows = ["| " + " | ".join(row) + " |" for row in table.rows]
        parts += [table.title, "\n".join([*head, *rows])]
    return "\n\n".join([*parts, *filter(None, [answer.remarks])])


def terminal(answer: Answer) -> str:
    """Returns the answer in 80 columns: each check on its own lines, then tables and remarks."""
    lines: list[str] = []
    for check in answer.checks:
        verdict = check.verdict if check.holds else check.verdict.upper()
        for label, text in (("expected", check.expected), ("measured", f"{check.measured}: {verdict}")):
            lines += textwrap.wrap(f"{label}  {text}", 80, subsequent_indent=" " * 10)
        lines += textwrap.wrap(check.otherwise, 80) if check.holds is False else []
    for table in answer.tables:
        widths = [max(len(row[i]) for row in [table.head, *table.rows]) for i in range(len(table.head))]
        lines += ["", *textwrap.wrap(table.title, 80)]
        for row in [table.head, *table.rows]:
            cells = [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
            lines.append("  ".join(cells))
    return "\n".join([*lines, *textwrap.wrap(answer.remarks, 80)])
