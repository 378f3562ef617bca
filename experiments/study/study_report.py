"""Writes the report of a study: its question, the registered expectation, the result, and the protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from experiments.compare.forms import readme
from experiments.compare.forms.folder import write
from experiments.compare.forms.plain_text import render
from experiments.compare.processes import Workers
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.report import ComparisonReport, environment, make
from experiments.compare.statistics.metric import Metric
from experiments.compare.statistics.results import Question
from experiments.study.protocol import Protocol
from experiments.study.registration import COPY, digest
from experiments.study.truth.report import write_truth
from experiments.study.variance.report import write_variance
from experiments.sweep.preview import duration
from experiments.tracking.outputs import write_text

NAMED = ("versions.torch", "versions.python", "cpu.model", "threads", "device", "git.commit")


def write_report(protocol: Protocol) -> Path:
    """Compares the runs of a study, prints the answer and writes `report/`, `table.md` and `study.md`.

    For runs with `diagnostics=truth` it also writes `truth.csv` and `truth.svg`. For a study with `variance` it also
    writes `variance.csv` and `variance.svg`. Returns the path of `study.md`.
    Raises OutputFailed if a file cannot be written.
    """
    study, folder = protocol.study, protocol.folder
    margin = Metric().in_own_unit(study.margin)
    question = Question(baseline=study.baseline, margin=margin, choosing_seeds=study.choosing_seeds)
    with Workers(visible=True) as workers:
        report = make([stage.folder for stage in protocol.stages], question, list(study.grids), workers)
        print(render(report))
        write(report, folder / "report", workers)
    write_text(folder / "table.md", readme.render(report))
    truth = write_truth(protocol.reported, folder)
    variance = write_variance(protocol.tried, study.variance, folder) if study.variance else ""
    write_text(folder / "study.md", "\n".join(_lines(protocol, report, truth, variance)) + "\n")
    return folder / "study.md"


def _lines(protocol: Protocol, report: ComparisonReport, truth: str, variance: str) -> Iterator[str]:
    study = protocol.study
    first = min(run.started for run in report.runs)[:19]
    yield from (f"# Study {protocol.folder.name}", "", "## Question", "", study.question, "")
    yield from ("## Expectation", "", study.expectation, "")
    yield f"Registered in `{COPY}` (SHA-256 {digest(protocol.folder / COPY)}). The first run started at {first} UTC."
    yield from ("", "## Result", "", readme.render(report), "More in [the comparison](report/report.md).", "")
    if truth:
        yield from ("## The gradient's truth and training", "", "![correlations](truth.svg)", "", truth)
    if variance:
        yield from ("## Analysis of variance", "", variance)
    yield from ("## Protocol", "", f"- all runs: {', '.join(study.settings) or 'the defaults'}")
    if study.reporting_settings:
        yield f"- reporting stage: {', '.join(study.reporting_settings)}"
    yield f"- seeds that choose: {_list(study.choosing_seeds)}; seeds that are reported: {_list(study.reporting_seeds)}"
    for key, values in protocol.grids[-1].items():
        added = values[len(study.grids[key]) :]
        yield f"- {key}: {_list(study.grids[key])}" + (f"; added by extension: {_list(added)}" if added else "")
    if protocol.limit:
        yield f"- a best value lies at an edge of a grid that was not extended: {protocol.limit}"
    yield from (f"- not applicable: {one.pair.name}" for one in protocol.pairs if not one.applies)
    yield from (f"- chosen for {choice}" for choice in protocol.choices)
    diverged = sum(run.failed for run in report.runs)
    yield f"- runs: {sum(run.outcome != 'n/a' for run in report.runs)}, of which {diverged} diverged"
    for stage in protocol.stages:
        own = [run for run in report.runs if run.path.is_relative_to(stage.folder.resolve())]
        yield f"- time of {stage.name}, from its first start to its last end: {duration(_seconds(own))}"
    found = environment(report.runs)
    yield from (f"- {name}: {_list(found[name])}" for name in NAMED if name in found)


def _list(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))


def _seconds(runs: Sequence[RunRecord]) -> float:
    starts = [datetime.fromisoformat(run.started) for run in runs]
    ends = [start + timedelta(seconds=run.seconds or 0.0) for start, run in zip(starts, runs, strict=True)]
    return (max(ends) - min(starts)).total_seconds()
