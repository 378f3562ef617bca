"""Writes the report as one HTML file that needs no network."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.compare.forms import tables
from experiments.compare.forms.drawings import heat_map, svg
from experiments.compare.forms.overview import overview_table
from experiments.compare.forms.panels import MOST_BANDS
from experiments.compare.forms.plain_text import counts, printable, relative, sweeps
from experiments.compare.forms.verdicts import remarks
from experiments.compare.report import ComparisonReport, Section, environment, varied_keys
from experiments.plotting import Dash, looks

TEMPLATE = "report.html.jinja"
MAP_SCALE = 110  # pixels an inch, at which the heat map's letters are as large as the page's small ones


def render(report: ComparisonReport, drawn: Sequence[Sequence[tuple[str, str]]], folder: Path) -> str:
    """Returns the page; `drawn` has title and SVG of each section's panels. Names are text, never markup.

    Links to run folders are relative to `folder`.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(Path(__file__).parent)
    drawn_map = heat_map(report)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, finalize=_printable)
    return made.get_template(TEMPLATE).render(
        title="Comparison of strategies",
        counts=counts(report),
        sweeps=sweeps(report),
        roots=[str(root) for root in report.roots],
        meaning=meaning(report),
        overview=overview_table(report),
        heat_map=_data(svg(drawn_map)),
        most_bands=MOST_BANDS,
        map_width=round(MAP_SCALE * drawn_map.get_figwidth()),
        sections=[_section(*pair, report, folder) for pair in zip(report.sections, drawn, strict=True)],
        failed=[(run.outcome, run.path.name, f"./{relative(run.path, folder)}", run.reason) for run in report.failed],
        notes=report.notes,
        varied=varied_keys(report.runs),
        environment=environment(report.runs),
    )


def meaning(report: ComparisonReport) -> str:
    """Explains the numbers in two sentences."""
    metric = report.question.metric
    at = "at the checkpoint with the best validation accuracy" if metric.at == "best" else "at the last step"
    return (
        f"Scores are {metric.tag} {at}: the mean of the finished runs and its 95 % interval by Student's t. "
        "Diverged and crashed runs have no score; their share stands beside it."
    )


def _section(
    section: Section, drawn: Sequence[tuple[str, str]], report: ComparisonReport, folder: Path
) -> dict[str, Any]:
    runs = {
        c.variant.name: [(f"seed {r.seed}", f"./{relative(r.path, folder)}") for r in c.runs]
        for c in section.result.choices
    }
    seen = looks(section.variants)
    return {
        "name": section.name,
        "tables": tables.of(section, report.question),
        "notes": remarks(section.result, report.question),
        "words": {name: evidence.words for name, evidence in section.evidence.items()},
        "looks": {name: {"colour": look.colour, "dashes": _dashes(look.dash)} for name, look in seen.items()},
        "panels": [(title, _data(panel)) for title, panel in drawn],
        "runs": runs,
    }


def _dashes(dash: Dash) -> str:
    named = {"-": "", "--": "8 4", "-.": "8 3 2 3", ":": "2 3"}
    return named[dash] if isinstance(dash, str) else " ".join(str(2 * part) for part in dash[1])


def _data(drawn: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(drawn.encode("utf-8", "replace")).decode()


def _printable(value: Any) -> Any:
    """Replaces control characters and half surrogates, which no HTML file may hold."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return printable(value)
