"""Collects what the page shows of a block."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.compare.forms import tables
from experiments.compare.forms.charts import charts, forest_rows
from experiments.compare.forms.forests import Forest, difference_forest, score_forest
from experiments.compare.forms.panels import Panel, panels
from experiments.compare.forms.plain_text import relative
from experiments.compare.forms.verdicts import remarks, sentence
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.report import ComparisonReport, Section
from experiments.compare.statistics.bands import FEW
from experiments.plotting import Look


def page_section(section: Section, report: ComparisonReport, folder: Path) -> dict[str, Any]:
    """Returns the values of a block for the template; links are relative to `folder`."""
    question, seen = report.question, report.looks
    differences = difference_forest(section, question)
    runs = [(choice.variant.name, run) for choice in section.result.choices for run in choice.runs]
    drawn = panels(section)
    return {
        "name": section.name,
        "answer": sentence(section.result, question),
        "scores": _forest(score_forest(section, question), seen),
        "differences": differences and _forest(differences, seen),
        "tables": tables.of(section, question),
        "notes": remarks(section.result, question),
        "words": {name: evidence.words for name, evidence in section.evidence.items()},
        "places": {name: place for place, (_, name) in enumerate(section.variants)},
        "charts": charts(drawn),
        "explained": _explanation(section, drawn),
        "runs": [(name, run.seed, _score(run, report), *link(run, folder)) for name, run in runs],
    }


def _explanation(section: Section, drawn: Sequence[Panel]) -> str:
    """Explains what the charts of a block hold."""
    many = {band.of >= FEW for seen in section.evidence.values() for band in seen.bands.values()}
    ends = any(panel.filled for panel in drawn)
    means = "mean of the seeds" + " and its 95 % t interval" * ends
    medians = "median of the seeds" + " and range" * ends
    said = [f"{means}; below {FEW} seeds {medians}" if len(many) > 1 else means if True in many else medians]
    curves = [(panel, curve) for panel in drawn for curve in panel.curves]
    if any(not curve.whole.all() for _, curve in curves):
        said.append("dotted: not all runs have a value")
    if any(curve.marks for panel, curve in curves if panel.kind != "sensitivity"):
        said.append("cross: a run failed")
    if any(panel.kind == "sensitivity" for panel in drawn):
        said.append("circle: the chosen value")
    if any(np.any(curve.middle <= panel.zero) for panel, curve in curves if panel.zero is not None):
        said.append("the lower edge of a log axis: 0")
    return "Lines: " + "; ".join(said) + "."


def _forest(forest: Forest, seen: Mapping[str, Look]) -> dict[str, Any]:
    rows, across = forest_rows(forest, seen) if forest.rows else ([], None)
    alt = "; ".join(f"{row.name} {row.mean:.4g}, interval {row.low:.4g} to {row.high:.4g}" for row in forest.rows)
    return {"title": forest.title, "alt": f"{forest.title}: {alt}", "rows": rows, "axis": across, "of": forest}


def _score(run: RunRecord, report: ComparisonReport) -> str:
    score = report.question.metric.of(run)
    return tables.NONE if score is None or not np.isfinite(score) else tables.value(score, report.question)


def link(run: RunRecord, folder: Path) -> tuple[str, str]:
    """Returns a run's folder as text and as URL, both relative to `folder`; a run of a table has no URL."""
    url = f"./{relative(run.path, folder)}" if run.has_folder else ""
    return os.path.relpath(run.path, folder.absolute()), url
