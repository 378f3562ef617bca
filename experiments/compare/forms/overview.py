"""Tabulates each variant's score in each block."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.compare.forms.tables import TextTable, unit, with_interval
from experiments.compare.report import ComparisonReport
from experiments.compare.statistics.intervals import ConfidenceInterval

MOST_COLUMNS = 12  # variants; more are rows


def overview(report: ComparisonReport) -> tuple[list[str], list[str], list[list[ConfidenceInterval | None]]]:
    """Returns short names of blocks, names of variants, and each variant's score in each block (or None)."""
    variants = list(dict.fromkeys(name for section in report.sections for _, name in section.variants))
    grid: list[list[ConfidenceInterval | None]] = []
    for section in report.sections:
        by_name = {score.name: score.interval for score in section.result.scores}
        grid.append([by_name.get(variant) for variant in variants])
    return short_names([section.result.block.parts for section in report.sections]), variants, grid


def short_names(parts: Sequence[tuple[str, ...]]) -> list[str]:
    """Shortens the names of the blocks by the parts that all share; the component stays."""
    common = set.intersection(*map(set, parts)) if len(parts) > 1 else set()
    return [", ".join([own[0], *(part for part in own[1:] if part not in common)]) for own in parts]


def overview_table(report: ComparisonReport) -> TextTable:
    """Returns the overview as text."""
    rows, columns, grid = upright(*overview(report))
    cells = [
        [name, *(with_interval(score, report.question) for score in row)] for name, row in zip(rows, grid, strict=True)
    ]
    return TextTable(f"{report.question.metric.tag}, {unit(report.question)}", ["", *columns], cells)


def upright(
    blocks: list[str], variants: list[str], grid: list[list[ConfidenceInterval | None]]
) -> tuple[list[str], list[str], list[list[ConfidenceInterval | None]]]:
    """Returns names of rows, names of columns, and the scores: blocks by variants, or many variants by blocks.

    Many variants become rows, because names above narrow columns cannot be read.
    """
    if len(variants) <= max(MOST_COLUMNS, len(blocks)):
        return blocks, variants, grid
    return variants, blocks, [list(column) for column in zip(*grid, strict=True)]
