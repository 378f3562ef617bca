"""Writes a folder with the report in every form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.compare.forms import markdown, page
from experiments.compare.forms.drawings import draw, heat_map, save
from experiments.compare.forms.machine_files import write_machine_files
from experiments.compare.processes import Workers
from experiments.compare.report import ComparisonReport, Section
from experiments.compare.statistics.results import Question
from experiments.plotting import Look
from experiments.tracking.outputs import write_text


@dataclass(frozen=True)
class _Drawing:
    section: Section
    question: Question
    looks: Mapping[str, Look]
    stem: Path


def write(report: ComparisonReport, folder: Path, workers: Workers, command: str = "") -> Path:
    """Writes report.html, report.md, report.json, the CSV files and `figures/`; returns the page's path.

    The page names the `command` that made it.
    Raises OutputFailed if a file cannot be written.
    """
    figures = folder / "figures"
    seen = report.looks
    tasks = [_Drawing(section, report.question, seen, figures / str(i)) for i, section in enumerate(report.sections)]
    workers.spread(_draw, tasks, "drawing")
    save(heat_map(report), figures / "heat_map")
    write_machine_files(report, folder)
    write_text(folder / "report.md", markdown.render(report, folder))
    path = folder / "report.html"
    write_text(path, page.render(report, folder, command))
    return path


def _draw(task: _Drawing) -> None:
    draw(task.section, task.question, task.looks, task.stem)
