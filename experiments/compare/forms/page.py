"""Writes the report as one HTML file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from experiments.compare.forms import charts, tables
from experiments.compare.forms.forests import Forest, difference_forest, score_forest
from experiments.compare.forms.overview import overview, overview_table, upright
from experiments.compare.forms.panels import Panel, panels
from experiments.compare.forms.plain_text import counts, printable, relative, sweeps
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.report import NOT_SET, ComparisonReport, Section, environment, shared_keys, varied_keys
from experiments.compare.statistics.bands import FEW
from experiments.plotting import Look

HERE = Path(__file__).parent
TEMPLATE, STYLE, SCRIPT = "report.html.jinja", "report.css", "report.js"


def render(report: ComparisonReport, folder: Path, command: str = "") -> str:
    """Returns the page. Names are text, never markup. `command` made the page, which will lie in `folder`.

    Runs become links while the page lies in `folder`, and in a copy that has the same folders around it.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, finalize=_printable, trim_blocks=True
    )
    script = (HERE / SCRIPT).read_text(encoding="utf-8")
    seeds = {"seed": [str(seed) for seed in sorted({run.seed for run in report.runs})]}
    commands = list(dict.fromkeys(run.command for run in report.runs if run.command))
    return made.get_template(TEMPLATE).render(
        title=", ".join(["Comparison of strategies", *dict.fromkeys(s.result.block.component for s in report.sections)]),
        css=Markup((HERE / STYLE).read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        home=json.dumps(folder.absolute().parts[1:]),
        size={"width": charts.WIDTH, "height": charts.HEIGHT},
        ink=_ink,
        dashes=charts.dashes,
        looks=report.looks,
        counts=counts(report),
        roots=[str(root) for root in report.roots],
        overview=overview_table(report) if len(report.sections) > 1 else None,
        shares=_shares(report),
        sections=[_section(section, report, folder) for section in report.sections],
        score_name=f"{report.question.metric.tag} {tables.unit(report.question)}",
        failed=[(run.outcome, *_link(run, folder), run.reason) for run in report.failed],
        notes=report.notes,
        not_set=NOT_SET,
        varied=seeds | varied_keys(report.runs),
        shared=shared_keys(report.runs),
        environment=environment(report.runs),
        meaning=meaning(report),
        date=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        command=command,
        sweeps=sweeps(report),
        run_command=commands[0] if len(commands) == 1 else "",
    )


def meaning(report: ComparisonReport) -> str:
    """Explains the numbers in two sentences."""
    metric, method = report.question.metric, report.question.method
    at = "at the checkpoint with the best validation accuracy" if metric.at == "best" else "at the last step"
    interval = "Student's t" if method == "t" else "the BCa bootstrap"
    return (
        f"Scores are {metric.tag} {at}: the mean over seeds and its 95 % interval by {interval}. "
        "A diverged or crashed run counts as a guess among the classes."
    )


def _section(section: Section, report: ComparisonReport, folder: Path) -> dict[str, Any]:
    question, seen = report.question, report.looks
    differences = difference_forest(section, question)
    runs = [(choice.variant.name, run) for choice in section.result.choices for run in choice.runs]
    drawn = panels(section)
    return {
        "name": section.name,
        "answer": _answer(section, report),
        "scores": _forest(score_forest(section, question), seen),
        "differences": differences and _forest(differences, seen),
        "tables": tables.of(section, question),
        "notes": section.result.notes,
        "words": {name: evidence.words for name, evidence in section.evidence.items()},
        "places": {name: place for place, (_, name) in enumerate(section.variants)},
        "charts": charts.charts(drawn),
        "explained": _explained(section, drawn),
        "runs": [(name, run.seed, _score(run, report), *_link(run, folder)) for name, run in runs],
    }


def _answer(section: Section, report: ComparisonReport) -> list[str]:
    """Returns the sentences that answer the question for a block."""
    question, scored = report.question, [score for score in section.result.scores if score.interval]
    if not scored:
        return ["No run has a score."]
    best = max(scored, key=lambda score: question.metric.sign * score.interval.mean)
    number = tables.with_interval(best.interval, question)
    said = [f"{best.name} has the best mean: {number} {tables.unit(question)}, {best.interval.n} seeds."]
    found = section.result.differences
    if found:
        parts = [f"{one.name} {tables.with_interval(one.interval, question, tables.with_sign)}" for one in found]
        said.append(f"Difference to {found[0].baseline}: {', '.join(parts)}.")
    return said


def _explained(section: Section, drawn: Sequence[Panel]) -> str:
    """Explains what the charts of a block hold."""
    many = {band.of >= FEW for seen in section.evidence.values() for band in seen.bands.values()}
    ends = any(panel.filled for panel in drawn)
    means, medians = "mean of the seeds" + " and its 95 % t interval" * ends, "median of the seeds" + " and range" * ends
    said = [f"{means}; below {FEW} seeds {medians}" if len(many) > 1 else means if True in many else medians]
    curves = [(panel, curve) for panel in drawn for curve in panel.curves]
    if any(not curve.whole.all() for _, curve in curves):
        said.append("dotted: not all runs have a value")
    if any(curve.marks for panel, curve in curves if panel.kind != "sensitivity"):
        said.append("cross: a run failed")
    if any(panel.kind == "sensitivity" for panel in drawn):
        said.append("circle: the chosen value")
    if any(np.nanmin(curve.middle, initial=np.inf) <= panel.zero for panel, curve in curves if panel.zero is not None):
        said.append("the lower edge of a log axis: 0")
    return "Lines: " + "; ".join(said) + "."


def _forest(forest: Forest, seen: Mapping[str, Look]) -> dict[str, Any]:
    rows, across = charts.forest_rows(forest, seen) if forest.rows else ([], None)
    alt = "; ".join(f"{row.name} {row.mean:.4g}, interval {row.low:.4g} to {row.high:.4g}" for row in forest.rows)
    return {"title": forest.title, "alt": f"{forest.title}: {alt}", "rows": rows, "axis": across, "zero": forest.zero}


def _shares(report: ComparisonReport) -> list[list[int | None]]:
    """Returns how good each cell of the overview is, between 0 for the worst and 100; None for an empty cell."""
    _, _, grid = upright(*overview(report))
    sign = report.question.metric.sign
    means = np.array([[np.nan if one is None else sign * one.mean for one in row] for row in grid], dtype=np.float64)
    known = means[np.isfinite(means)]
    low, width = (known.min(), np.ptp(known)) if len(known) else (0.0, 0.0)
    return [[round(100 * (v - low) / (width or 1)) if np.isfinite(v) else None for v in row] for row in means.tolist()]


def _score(run: RunRecord, report: ComparisonReport) -> str:
    score = report.question.metric.of(run)
    return tables.NONE if score is None or not np.isfinite(score) else tables.value(score, report.question)


def _link(run: RunRecord, folder: Path) -> tuple[str, str]:
    """Returns a run's folder as text and as URL, both relative to the page."""
    return os.path.relpath(run.path, folder.absolute()), f"./{relative(run.path, folder)}"


def _ink(look: Look) -> Any:
    """Returns the attribute that gives an element the colours of a variant."""
    from markupsafe import Markup

    return Markup(f'style="--light:{look.colour};--dark:{look.on_dark}"')


def _printable(value: Any) -> Any:
    """Replaces control characters and half surrogates, which no HTML file may hold."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return printable(value)
