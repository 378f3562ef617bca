"""Writes the report as one HTML file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from experiments.compare.forms import charts, tables
from experiments.compare.forms.overview import overview, overview_table, upright
from experiments.compare.forms.page_sections import link, page_section
from experiments.compare.forms.plain_text import counts, printable, sweeps
from experiments.compare.report import NOT_SET, ComparisonReport, environment, shared_keys, varied_keys
from experiments.plotting import Look

HERE = Path(__file__).parent
TEMPLATE, STYLE, SCRIPT = "report.html.jinja", "report.css", "report.js"


def render(report: ComparisonReport, folder: Path, command: str = "") -> str:
    """Returns the page. Names are text, never markup. `command` made the page, which will lie in `folder`.

    Runs become links while the page lies in `folder`, and in a copy that has the same folders around it.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, finalize=_printable)
    script = (HERE / SCRIPT).read_text(encoding="utf-8")
    return made.get_template(TEMPLATE).render(
        title=f"Comparison of strategies: {', '.join(overview(report)[0])}",
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
        sections=[page_section(section, report, folder) for section in report.sections],
        short_names=overview(report)[0],
        score_name=f"{report.question.metric.tag} {tables.unit(report.question)}",
        failed=[(run.outcome, *link(run, folder), run.reason) for run in report.failed],
        notes=report.notes,
        not_set=NOT_SET,
        varied={"seed": sorted({run.seed for run in report.runs})} | varied_keys(report.runs),
        shared=shared_keys(report.runs),
        environment=environment(report.runs),
        meaning=meaning(report),
        date=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        command=command,
        sweeps=sweeps(report),
        commands=list(dict.fromkeys(run.command for run in report.runs if run.command)),
    )


def meaning(report: ComparisonReport) -> str:
    """Explains the numbers in two sentences."""
    metric = report.question.metric
    at = "at the checkpoint with the best validation accuracy" if metric.at == "best" else "at the last step"
    return (
        f"Scores are {metric.tag} {at}: the mean of the finished runs and its 95 % interval by Student's t. "
        "Diverged and crashed runs have no score; their share stands beside it."
    )


def _shares(report: ComparisonReport) -> list[list[int | None]]:
    """Returns how good each cell of the overview is, between 0 for the worst and 100; None for an empty cell."""
    _, _, grid = upright(*overview(report))
    sign = report.question.metric.sign
    means = np.array([[np.nan if one is None else sign * one.mean for one in row] for row in grid], dtype=np.float64)
    known = means[np.isfinite(means)]
    low, width = (known.min(), np.ptp(known)) if len(known) else (0.0, 0.0)
    return [[round(100 * (v - low) / (width or 1)) if np.isfinite(v) else None for v in row] for row in means.tolist()]


def _ink(look: Look) -> Any:
    """Returns the attribute that gives an element the colours of a variant."""
    from markupsafe import Markup

    return Markup(f'style="--light:{look.colour};--dark:{look.on_dark}"')


def _printable(value: Any) -> Any:
    """Replaces control characters and half surrogates, which no HTML file may hold."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return printable(value)
