"""TensorBoard's rows of HParams: a run for every reported run, averaged over the seeds of a variant, with pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from experiments.compare.forms.board_names import block_names, safe
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.report import ComparisonReport
from experiments.compare.statistics.metric import Metric
from experiments.compare.statistics.tuning import TrialChoice
from experiments.config.config_hash import NOT_HASHED
from experiments.tracking.event_file import EventFile
from experiments.tracking.hparams import end_summary, hparam_values, row_summary

Pictures = Literal["all", "first", "none"]

SCORES = {
    "accuracy/test": "test accuracy",
    "accuracy/val": "validation accuracy",
    "loss/val": "validation loss",
}


def write(report: ComparisonReport, folder: Path, pictures: Pictures) -> dict[str, list[Path]]:
    """Writes `seeds/<block>/<strategy>/seed=<n>`; returns the runs whose ops cannot be pictured, by the reason.

    `pictures`: of all runs, of the first of each variant, or none.
    """
    problems: dict[str, list[Path]] = {}
    for block, choice in _choices(report):
        name = safe(choice.variant.name)
        group = f"{block}/{name}" if len(report.sections) > 1 else name
        for run in choice.runs:
            pictured = pictures == "all" or (pictures == "first" and run is choice.runs[0])
            with EventFile(folder / "seeds" / block / name / f"seed={run.seed}") as file:
                problem = _write_run(run, choice, group, file, pictured)
            if problem:
                problems.setdefault(problem, []).append(run.path)
    return problems


def _choices(report: ComparisonReport) -> Iterator[tuple[str, TrialChoice]]:
    """Yields every variant with its block's name."""
    for block, section in zip(block_names(report), report.sections, strict=True):
        for choice in section.result.choices:
            yield block, choice


def settings(report: ComparisonReport) -> list[dict[str, object]]:
    """Returns the hyperparameters of every reported run by dotted key."""
    return [_settings(run, choice) for _, choice in _choices(report) for run in choice.runs]


def _settings(run: RunRecord, choice: TrialChoice) -> dict[str, object]:
    own = {key: value for key, value in run.config.items() if key not in NOT_HASHED}
    return {**run.options, **own, "seeds": len(choice.runs)}


def _write_run(run: RunRecord, choice: TrialChoice, group: str, file: EventFile, pictured: bool) -> str:
    """Writes a run's row, which TensorBoard averages over its `group`; returns why there are no pictures."""
    file.add(row_summary(hparam_values(_settings(run, choice)), group))
    step = int(run.best.get("step", run.config.get("max_steps", 0)) or 0)
    scores = {f"score/{tag}": Metric(tag).of(run) for tag in SCORES}
    file.scalars(step, {tag: score for tag, score in scores.items() if score is not None and math.isfinite(score)})
    problem = _write_pictures(run, file, step) if pictured and run.outcome == "done" and run.has_folder else ""
    file.add(end_summary(run.outcome == "done"))
    return problem


def _write_pictures(run: RunRecord, file: EventFile, step: int) -> str:
    from experiments.compare.explaining.op_response import responses
    from experiments.compare.forms.op_images import png

    try:
        drawn = {f"op/{response.layer}": png(response) for response in responses(run.path)}
    except Exception as error:  # for example no checkpoint, or another version: the rest of the report is still written
        text: Any = str(error).splitlines()
        return f"ops cannot be pictured ({type(error).__name__}: {text[0] if text else ''})"
    for tag, picture in drawn.items():
        file.picture(tag, picture, step)
    return ""
