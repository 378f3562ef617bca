"""An arm's reported runs read once: bands, symptoms in words, budgets, and what was wrong with the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.compare.bands import Band, bands
from experiments.compare.budgets import Budgeted, Budgets, budgeted, budgets
from experiments.compare.comparing import Result
from experiments.compare.learning_curves import read_curves
from experiments.compare.processes import spread
from experiments.compare.run_record import RunRecord
from experiments.compare.symptoms import symptoms
from experiments.compare.words import words

MANY = 100  # runs from which on reading them is worth more processes


@dataclass(frozen=True)
class Evidence:
    """What the curves of an arm's reported runs show."""

    bands: dict[str, Band]
    words: list[str]
    budgeted: Budgeted
    problems: list[str]
    broke_off: list[int]  # the last logged steps of the runs that failed


@dataclass(frozen=True)
class _Task:
    runs: Sequence[RunRecord]
    budgets: Budgets


def gather(results: Sequence[Result]) -> list[dict[str, Evidence]]:
    """For every block, the evidence by arm; memory holds one arm's curves at a time and process."""
    tasks = [_Task(choice.runs, budgets(result)) for result in results for choice in result.choices]
    few = sum(len(task.runs) for task in tasks) < MANY or len(tasks) < 2
    found = iter([_read(task) for task in tasks] if few else spread(_read, tasks))
    return [{choice.arm.name: next(found) for choice in result.choices} for result in results]


def _read(task: _Task) -> Evidence:
    curves = [read_curves(run) for run in task.runs]
    last = [max((int(steps[-1]) for steps, _ in c.curves.values()), default=0) for c in curves]
    return Evidence(
        bands(curves),
        words([symptoms(run, curve) for run, curve in zip(task.runs, curves, strict=True)]) if curves else [],
        budgeted(task.runs, curves, task.budgets),
        [problem for curve in curves for problem in curve.problems],
        [step for run, step in zip(task.runs, last, strict=True) if run.failed],
    )
