"""The report as Markdown, and the README's table."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from experiments.compare.forms import tables
from experiments.compare.forms.tables import Table
from experiments.compare.forms.terminal import printable
from experiments.compare.report import Report, Section, environment, varied
from experiments.compare.statistics.intervals import Interval


def render(report: Report, folder: Path) -> str:
    """The whole report; figures and run folders are linked relative to `folder`."""
    lines = ["# Comparison", "", f"Of {', '.join(f'`{_safe(str(root))}`' for root in report.roots)}.", ""]
    lines += [*draw(tables.overview_table(report)), ""]
    for index, section in enumerate(report.sections):
        lines += [
            f"## {_safe(section.name)}",
            "",
            *_section(section, report),
            f"![curves](figures/{index}_curves.svg)",
            "",
        ]
    if report.failed:
        lines += ["## Runs that did not finish well", ""]
        lines += [f"- {run.outcome}: {link(run.path, folder)}: {_safe(run.reason)}" for run in report.failed]
        lines.append("")
    lines += _facts("What differs between the runs", varied(report.runs))
    lines += _facts("Environment", environment(report.runs))
    if report.notes:
        lines += ["## Left out or odd", "", *(f"- {_safe(note)}" for note in report.notes), ""]
    return "\n".join(lines)


def _section(section: Section, report: Report) -> Iterator[str]:
    for table in tables.of(section, report.question):
        yield from (f"{_safe(table.title.capitalize())}:", "", *draw(table), "")
    for name, seen in section.evidence.items():
        yield from (f"- `{_safe(name)}`: {_safe(sentence)}" for sentence in seen.words)
    yield ""
    yield from (f"- {_safe(note)}" for note in section.result.notes)
    yield ""


def _facts(title: str, values: dict[str, list[str]]) -> list[str]:
    return [f"## {title}", "", *(f"- `{_safe(k)}`: {_safe(', '.join(v))}" for k, v in values.items()), ""]


def draw(table: Table) -> list[str]:
    """A Markdown table."""
    rows = [table.header, ["---"] * len(table.header), *table.rows]
    return ["| " + " | ".join(cell if set(cell) == {"-"} else _safe(cell) for cell in row) + " |" for row in rows]


def link(path: Path, folder: Path) -> str:
    """A relative link to a run folder."""
    return f"[{_safe(path.name)}]({quote(os.fsencode(os.path.relpath(path, folder.absolute())))}/)"


def _safe(text: str) -> str:
    """Text that neither Markdown nor the HTML made of it takes for markup."""
    escaped = re.sub(r"([\\`*_|#]|(?<=\])\()", r"\\\1", printable(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;")


def readme(report: Report) -> str:
    """The table of the README: a row a component, each strategy's score ± half-width and learning rate; differences.

    The differences are those of the report, so that `--baseline best` holds every row against its best strategy.
    """
    arms = tables.overview(report)[1]
    keys = _chosen_keys(report)
    rows = [_row(section, arms, report, keys) for section in report.sections]
    lines = draw(Table("", ["component (parameters)", *arms], []))
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", "Paired difference to the baseline of the row, in points, with its 95 % interval:", ""]
    for section in report.sections:
        found = section.result.differences
        if found:
            parts = "; ".join(_difference(d.name, d.interval, d.unpaired_because, report) for d in found)
            lines.append(f"- `{_label(section, report)}`, less {_safe(found[0].baseline)}: {parts}")
    return "\n".join([*lines, "", *_flagged(report), ""])


def _flagged(report: Report) -> list[str]:
    """The notes, each once, with the rows that it is about if these are not all."""
    about: dict[str, list[str]] = {}
    for section in report.sections:
        for note in section.result.notes:
            about.setdefault(note, []).append(f"`{_label(section, report)}`")
    everywhere = len(report.sections)
    return [
        f"- {_safe(note)}" if len(rows) == everywhere else f"- {', '.join(rows)}: {_safe(note)}"
        for note, rows in about.items()
    ]


def _label(section: Section, report: Report) -> str:
    """The component alone, where that is enough to tell the blocks apart."""
    components = [other.result.block.component for other in report.sections]
    alone = components.count(section.result.block.component) == 1
    return printable(section.result.block.component if alone else section.name)


def _row(section: Section, arms: list[str], report: Report, keys: set[str]) -> list[str]:
    count = parameters(section)
    cells = [f"`{_label(section, report)}`" + (f" ({count:,})" if count else "")]
    by_name = {c.arm.name: (c, s) for c, s in zip(section.result.choices, section.result.scores, strict=True)}
    for arm in arms:
        if arm not in by_name or by_name[arm][1].interval is None:
            cells.append("n/a")
            continue
        choice, score = by_name[arm]
        interval = score.interval or Interval(0, 0, 0, 0)
        half = tables.value(interval.half_width, report.question)
        noted = ", ".join(filter(None, [tables.chosen(choice, keys), score.failures]))
        cells.append(f"{tables.value(interval.mean, report.question)} ± {half}" + f" ({noted})" * bool(noted))
    return cells


def _chosen_keys(report: Report) -> set[str]:
    """The tuned keys of which any arm tried more than one value; the learning rate where there are none."""
    tried = [
        key
        for section in report.sections
        for choice in section.result.choices
        for key in report.tuned
        if len({str(setting.values.get(key)) for setting in choice.arm.settings}) > 1
    ]
    return set(tried) or {"optimizer.lr"}


def _difference(name: str, interval: Interval, unpaired: str, report: Report) -> str:
    return f"{_safe(name)} {tables.ranged(interval, report.question, tables.signed)}" + (
        " (unpaired)" if unpaired else ""
    )


def parameters(section: Section) -> int | None:
    """How many parameters the block's model has; None where its configuration no longer makes one."""
    from experiments.tracking.run_paths import RunPaths
    from experiments.training.build import build_model
    from experiments.training.loading import chosen

    for choice in section.result.choices:
        for run in choice.runs[:1]:
            try:
                return sum(parameter.numel() for parameter in build_model(chosen(RunPaths(run.path))).parameters())
            except Exception:  # of another version, whatever is wrong with it
                continue
    return None
