"""Writes a folder with the report in every form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.compare.forms import markdown, page
from experiments.compare.forms.drawings import draw, heat_map, save
from experiments.compare.forms.machine_files import write_machine_files
from experiments.compare.processes import Workers
from experiments.compare.report import ComparisonReport, Section
from experiments.compare.statistics.results import Question
from experiments.tracking.outputs import write_text


@dataclass(frozen=True)
class _Drawing:
    section: Section
    question: Question
    stem: Path


def write(report: ComparisonReport, folder: Path, workers: Workers) -> Path:
    """Writes report.html, report.md, report.json, the CSV files and `figures/`; returns the page's path.

    Raises OutputFailed if a file cannot be written.
    """
    figures = folder / "figures"
    tasks = [_Drawing(section, report.question, figures / str(i)) for i, section in enumerate(report.sections)]
    drawn = workers.spread(_draw, tasks, "drawing")
    save(heat_map(report), figures / "heat_map")
    write_machine_files(report, folder)
    write_text(folder / "report.md", markdown.render(report, folder))
    path = folder / "report.html"
    write_text(path, page.render(report, drawn, folder))
    return path


def _draw(task: _Drawing) -> list[tuple[str, str]]:
    return draw(task.section, task.question, task.stem)
