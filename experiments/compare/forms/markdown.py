"""Writes the report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from experiments.compare.forms import tables
from experiments.compare.forms.overview import overview_table
from experiments.compare.forms.plain_text import printable, relative, sweeps
from experiments.compare.forms.tables import TextTable
from experiments.compare.forms.verdicts import remarks, sentence
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.report import ComparisonReport, Section, environment, varied_keys


def render(report: ComparisonReport, folder: Path) -> str:
    """Returns the whole report; links to figures and run folders are relative to `folder`."""
    roots = ", ".join(f"`{escape(str(root))}`" for root in report.roots)
    lines = ["# Comparison", "", *_answers(report), "", f"Of {roots}.", ""]
    if report.from_several:
        lines += ["The runs come from several commands; `--sweep N` compares those of one:", ""]
        lines += [*(f"- {escape(line)}" for line in sweeps(report)), ""]
    lines += [*draw(overview_table(report)), ""]
    for index, section in enumerate(report.sections):
        lines += [
            f"## {escape(section.name)}",
            "",
            *_section(section, report),
            *_figures(folder, index),
            "",
        ]
    if report.failed:
        lines += ["## Diverged, crashed and unfinished runs", ""]
        lines += [f"- {run.outcome}: {link(run, folder)}: {escape(run.reason)}" for run in report.failed]
        lines.append("")
    lines += _facts("Keys that differ between runs", varied_keys(report.runs))
    lines += _facts("Environment", environment(report.runs))
    if report.notes:
        lines += ["## Left out or damaged", "", *(f"- {escape(note)}" for note in report.notes), ""]
    return "\n".join(lines)


def _figures(folder: Path, index: int) -> list[str]:
    """Shows the figures of scores and curves of a block, if they are there."""
    files = {kind: f"figures/{index}_{kind}.svg" for kind in ("scores", "curves")}
    return [f"![{kind}]({file})" for kind, file in files.items() if (folder / file).is_file()]


def _answers(report: ComparisonReport) -> list[str]:
    found = [(section.name, sentence(section.result, report.question)) for section in report.sections]
    if len(found) == 1:
        return [f"**{escape(found[0][1])}**"]
    return [f"- `{escape(name)}`: {escape(answer)}" for name, answer in found]


def _section(section: Section, report: ComparisonReport) -> Iterator[str]:
    for table in tables.of(section, report.question):
        yield from (f"{escape(table.title.capitalize())}:", "", *draw(table), "")
        yield from (escape(table.note), "") if table.note else ()
    for name, seen in section.evidence.items():
        yield from (f"- `{escape(name)}`: {escape(sentence)}" for sentence in seen.words)
    yield ""
    yield from (f"- {escape(note)}" for note in remarks(section.result, report.question))
    yield ""


def _facts(title: str, values: dict[str, list[str]]) -> list[str]:
    return [f"## {title}", "", *(f"- `{escape(k)}`: {escape(', '.join(v))}" for k, v in values.items()), ""]


def draw(table: TextTable) -> list[str]:
    """Draws a table in Markdown."""
    rows = [table.header, ["---"] * len(table.header), *table.rows]
    return ["| " + " | ".join(cell if set(cell) == {"-"} else escape(cell) for cell in row) + " |" for row in rows]


def link(run: RunRecord, folder: Path) -> str:
    """Links to a run folder, relative to `folder`; a run of a table is named only."""
    name = escape(run.path.name)
    return f"[{name}]({relative(run.path, folder)})" if run.has_folder else name


def escape(text: str) -> str:
    """Escapes text so that neither Markdown nor HTML reads it as markup."""
    escaped = re.sub(r"([\\`*_|#]|(?<=\])\()", r"\\\1", printable(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;")
