"""Writes the table of the README."""

from __future__ import annotations

from experiments.compare.forms import markdown, tables
from experiments.compare.forms.markdown import escape
from experiments.compare.forms.overview import overview
from experiments.compare.forms.plain_text import printable
from experiments.compare.forms.tables import TextTable
from experiments.compare.forms.verdicts import remarks
from experiments.compare.report import ComparisonReport, Section
from experiments.compare.statistics.intervals import ConfidenceInterval


def render(report: ComparisonReport) -> str:
    """Returns a row a component, with each strategy's score, interval and learning rate, then the differences.

    The differences are those of the report: `--baseline best` compares every row with its best on the choosing seeds.
    """
    variants = overview(report)[1]
    keys = _chosen_keys(report)
    rows = [_row(section, variants, report, keys) for section in report.sections]
    lines = markdown.draw(TextTable("", ["component (parameters)", *variants], []))
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines += [
        "",
        "Difference to the baseline of the row: mean of paired differences in points, with its 95 % interval:",
        "",
    ]
    for section in report.sections:
        found = section.result.differences
        if found:
            parts = "; ".join(_difference(d.name, d.interval, d.unpaired_because, report) for d in found)
            lines.append(f"- `{_label(section, report)}`, compared with {escape(found[0].baseline)}: {parts}")
    unknown = "- runs that do not record their number of parameters have none in the table"
    counted = all(_parameters(section) is not None for section in report.sections)
    return "\n".join([*lines, "", *_notes(report), *([] if counted else [unknown]), ""])


def _notes(report: ComparisonReport) -> list[str]:
    """Lists each note once, with the rows that it concerns if these are not all."""
    about: dict[str, list[str]] = {}
    for section in report.sections:
        for note in (str(section.result.family), *remarks(section.result, report.question)):
            about.setdefault(note, []).append(f"`{_label(section, report)}`")
    everywhere = len(report.sections)
    return [
        f"- {escape(note)}" if len(rows) == everywhere else f"- {', '.join(rows)}: {escape(note)}"
        for note, rows in about.items()
    ]


def _label(section: Section, report: ComparisonReport) -> str:
    """Names the block by its component if that is unique, else by all its parts."""
    components = [other.result.block.component for other in report.sections]
    alone = components.count(section.result.block.component) == 1
    return printable(section.result.block.component if alone else section.name)


def _row(section: Section, variants: list[str], report: ComparisonReport, keys: set[str]) -> list[str]:
    count = _parameters(section)
    cells = [f"`{_label(section, report)}`" + (f" ({count:,})" if count else "")]
    by_name = {c.variant.name: (c, s) for c, s in zip(section.result.choices, section.result.scores, strict=True)}
    for variant in variants:
        if variant not in by_name or by_name[variant][1].interval is None:
            cells.append("n/a")
            continue
        choice, score = by_name[variant]
        noted = ", ".join(filter(None, [tables.chosen_values(choice, keys), score.failures]))
        cells.append(tables.with_interval(score.interval, report.question) + f" ({noted})" * bool(noted))
    return cells


def _chosen_keys(report: ComparisonReport) -> set[str]:
    """Returns the tuned keys with more than one value in some variant; the learning rate if there are none."""
    tried = [
        key
        for section in report.sections
        for choice in section.result.choices
        for key in report.tuned
        if len({str(trial.values.get(key)) for trial in choice.variant.trials}) > 1
    ]
    return set(tried) or {"optimizer.lr"}


def _difference(name: str, interval: ConfidenceInterval, unpaired: str, report: ComparisonReport) -> str:
    return f"{escape(name)} {tables.with_interval(interval, report.question, tables.with_sign)}" + (
        " (unpaired)" if unpaired else ""
    )


def _parameters(section: Section) -> int | None:
    """Number of parameters of the block's model; None if no run records it."""
    recorded = (run.parameters for choice in section.result.choices for run in choice.runs)
    return next((count for count in recorded if count is not None), None)
