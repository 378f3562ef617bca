"""An arm's reported runs read once: bands, symptoms in words, budgets, and what was wrong with the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from experiments.compare.explaining.symptoms import Symptoms, symptoms
from experiments.compare.explaining.words import flipping, words
from experiments.compare.processes import Workers
from experiments.compare.reading.elsewhere import decision_layers
from experiments.compare.reading.learning_curves import read_curves
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.statistics.bands import Band, bands
from experiments.compare.statistics.budgets import Budgeted, Budgets, budgeted, budgets
from experiments.compare.statistics.comparing import Result

MANY = 100  # runs from which on reading them is worth more processes


@dataclass(frozen=True)
class Evidence:
    """What the curves of an arm's reported runs show."""

    bands: dict[str, Band]
    symptoms: list[Symptoms]
    budgeted: Budgeted
    problems: list[str]
    broke_off: list[int]  # the last logged steps of the runs that failed
    words: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Task:
    runs: Sequence[RunRecord]
    budgets: Budgets


def gather(results: Sequence[Result], workers: Workers) -> list[dict[str, Evidence]]:
    """For every block, the evidence by arm; memory holds one arm's curves at a time and process."""
    tasks = [_Task(choice.runs, budgets(result)) for result in results for choice in result.choices]
    many = sum(len(task.runs) for task in tasks) >= MANY
    read = iter(workers.spread(_read, tasks, "reading curves", many))
    found = [{choice.arm.name: next(read) for choice in result.choices} for result in results]
    deciding = _deciding(results, found)
    return [
        {name: replace(seen, words=words(seen.symptoms, deciding.get(block))) for name, seen in arms.items()}
        for block, arms in enumerate(found)
    ]


def _deciding(results: Sequence[Result], found: Sequence[dict[str, Evidence]]) -> dict[int, set[str] | None]:
    """By the block's place the layers that decide; only of blocks where it matters."""
    asked: dict[int, Path] = {}
    for block, (result, arms) in enumerate(zip(results, found, strict=True)):
        runs = [run.path for choice in result.choices for run in choice.runs if run.outcome == "done"]
        if runs and any(flipping(seen.symptoms) for seen in arms.values()):
            asked[block] = runs[0]
    return dict(zip(asked, decision_layers(list(asked.values())), strict=True))


def _read(task: _Task) -> Evidence:
    curves = [read_curves(run) for run in task.runs]
    last = [max((int(steps[-1]) for steps, _ in c.curves.values()), default=0) for c in curves]
    return Evidence(
        bands(curves),
        [symptoms(run, curve) for run, curve in zip(task.runs, curves, strict=True)],
        budgeted(task.runs, curves, task.budgets),
        [problem for curve in curves for problem in curve.problems],
        [step for run, step in zip(task.runs, last, strict=True) if run.failed],
    )
