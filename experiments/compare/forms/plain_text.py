"""Writes the report as plain text of 80 columns."""

from __future__ import annotations

import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from rich.cells import cell_len, set_cell_size

from experiments.compare.forms import tables
from experiments.compare.forms.tables import TextTable
from experiments.compare.forms.verdicts import remarks, sentence
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.report import ComparisonReport, Section
from experiments.compare.statistics.blocks import TUNED

WIDTH = 80
_LISTED = 20  # runs or notes that are written out
_NUMBER = re.compile(r"[-+.<\d]+( \[.*\])?")


def render(report: ComparisonReport) -> str:
    """Returns the report in lines of at most 80 columns, except for longer words."""
    lines = [*answers(report), "", counts(report)]
    if report.from_several:
        lines += ["the runs come from several commands; --sweep N compares those of one:", *_list(sweeps(report))]
    for section in report.sections:
        lines += ["", *_section(section, report)]
    if report.failed:
        lines += ["", "diverged, crashed and unfinished runs:", *_list(_failures(report.failed))]
    if report.notes:
        lines += ["", "left out or damaged:", *_list(report.notes)]
    return "\n".join(printable(line) for line in lines)


def answers(report: ComparisonReport) -> list[str]:
    """Writes the answer of each block, with the block's name if there are several."""
    found = [(section.name, sentence(section.result, report.question)) for section in report.sections]
    if len(found) == 1:
        return textwrap.wrap(found[0][1], WIDTH)
    return [line for name, answer in found for line in _item(f"{name}: {answer}")]


def counts(report: ComparisonReport) -> str:
    """Counts the runs by outcome."""
    found = Counter(run.outcome for run in report.runs)
    return f"{len(report.runs)} runs: " + ", ".join(f"{count} {name}" for name, count in sorted(found.items()))


def sweeps(report: ComparisonReport) -> list[str]:
    """Describes each sweep, and counts the runs that no sweep made; empty if all runs come from one command."""
    if not report.from_several:
        return []
    known = {sweep.command for sweep in report.sweeps}
    others = sum(run.command not in known for run in report.runs)
    more = [f"{others} run{'s' * (others > 1)} that no sweep made, or whose command is not recorded"] if others else []
    return [*map(str, report.sweeps), *more]


def _section(section: Section, report: ComparisonReport) -> Iterator[str]:
    yield section.name
    yield "=" * min(WIDTH, cell_len(section.name))
    for table in tables.of(section, report.question):
        yield f"{table.title}:"
        yield from [*draw(table), *textwrap.wrap(table.note, WIDTH), ""]
    for name, seen in section.evidence.items():
        for words in seen.words:
            yield from _item(f"{name}: {words}")
    for note in remarks(section.result, report.question):
        yield from _item(f"NOTE {note}")


def draw(table: TextTable, width: int = WIDTH) -> list[str]:
    """Draws aligned columns with two spaces between them; the widest shrink, and their cells break into lines."""
    rows = [[printable(cell) for cell in row] for row in (table.header, *table.rows)]
    widths = _widths(rows, width)
    lines = []
    for row in rows:
        cells = [textwrap.wrap(cell, w) or [""] for cell, w in zip(row, widths, strict=True)]
        for index in range(max(map(len, cells))):
            parts = [cell[index] if index < len(cell) else "" for cell in cells]
            padded = [set_cell_size(part, max(w, cell_len(part))) for part, w in zip(parts, widths, strict=True)]
            lines.append("  ".join(padded).rstrip())
    lines.insert(_height(rows[0], widths), "  ".join("-" * w for w in widths))
    return lines


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Returns the columns' widths. Until all fit, the widest column shrinks: columns of words first, numbers last."""
    columns = range(len(rows[0]))
    widths = [max(cell_len(row[column]) for row in rows) for column in columns]
    needed = [max(_least_width(row[column]) for row in rows) for column in columns]
    while sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > 6:
        roomy = [column for column in columns if widths[column] > needed[column]]
        widths[max(roomy or columns, key=widths.__getitem__)] -= 1
    return widths


def _least_width(cell: str) -> int:
    """Returns the least width of a cell: a whole number with its interval, or the longest word."""
    return cell_len(cell) if _NUMBER.fullmatch(cell) else max(map(cell_len, cell.split()), default=0)


def _height(row: Sequence[str], widths: Sequence[int]) -> int:
    return max(len(textwrap.wrap(cell, w)) for cell, w in zip(row, widths, strict=True))


def _list(sentences: Sequence[str]) -> list[str]:
    lines = [line for sentence in sentences[:_LISTED] for line in _item(sentence)]
    if len(sentences) > _LISTED:
        lines.append(f"- and {len(sentences) - _LISTED} more; --out writes all of them into files")
    return lines


def _item(sentence: str) -> list[str]:
    settings = {"initial_indent": "- ", "subsequent_indent": "  ", "break_long_words": False, "break_on_hyphens": False}
    return textwrap.wrap(sentence, WIDTH, **settings)  # type: ignore[arg-type]


def _failures(runs: Sequence[RunRecord]) -> list[str]:
    """Writes one sentence a configuration: how many runs, which seeds, and the reason of the first run."""
    alike: dict[tuple[str, ...], list[RunRecord]] = {}
    for run in runs:
        known = [f"{tables.short(key)} {value}" for key in TUNED if (value := run.config.get(key)) is not None]
        label = ", ".join([f"{run.options['component']} {run.options['strategy']}", *known])
        alike.setdefault((run.outcome, label), []).append(run)
    return [
        f"{len(own)} {outcome}: {label}, seed{'s' * (len(own) > 1)} {', '.join(str(run.seed) for run in own[:8])}"
        f"{', ...' if len(own) > 8 else ''}: {own[0].reason}"
        for (outcome, label), own in alike.items()
    ]


def relative(path: Path, folder: Path) -> str:
    """Returns the URL of a run folder, relative to `folder`."""
    return quote(os.fsencode(os.path.relpath(path, folder.absolute()))) + "/"


def printable(text: str) -> str:
    """Replaces the characters that move a terminal's cursor or change its colours."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
