"""Reads the curves of each variant's reported runs: bands, symptoms in words, budgets and faults of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.compare.explaining.sentences import sentences
from experiments.compare.explaining.symptoms import symptoms
from experiments.compare.processes import Workers
from experiments.compare.reading.learning_curves import read_curves
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.statistics.bands import Band, bands
from experiments.compare.statistics.budgets import Budgets, BudgetScores, budget_scores, budgets
from experiments.compare.statistics.results import Result

MANY = 100  # from this number of runs on, several processes read faster than one


@dataclass(frozen=True)
class Evidence:
    """What the curves of a variant's reported runs show; `words` are sentences about the symptoms."""

    bands: dict[str, Band]
    words: list[str]
    budgeted: BudgetScores
    problems: list[str]
    broke_off: list[int]  # the last logged steps of the runs that failed


@dataclass(frozen=True)
class _Reading:
    runs: Sequence[RunRecord]
    budgets: Budgets
    deciding: tuple[str, ...] | None


def gather(results: Sequence[Result], workers: Workers) -> list[dict[str, Evidence]]:
    """Returns the evidence by variant for every block; a process holds one variant's curves at a time."""
    tasks = [
        _Reading(choice.runs, budgets(result), _deciding_layers(result))
        for result in results
        for choice in result.choices
    ]
    many = sum(len(task.runs) for task in tasks) >= MANY
    read = iter(workers.spread(_read, tasks, "reading curves", many))
    return [{choice.variant.name: next(read) for choice in result.choices} for result in results]


def _deciding_layers(result: Result) -> tuple[str, ...] | None:
    """Names the block's layers that decide; None if no run records them."""
    recorded = (run.deciding_layers for choice in result.choices for run in choice.runs)
    return next((layers for layers in recorded if layers is not None), None)


def _read(task: _Reading) -> Evidence:
    curves = [read_curves(run) for run in task.runs]
    last = [max((int(steps[-1]) for steps, _ in c.curves.values()), default=0) for c in curves]
    return Evidence(
        bands(curves),
        sentences([symptoms(run, curve) for run, curve in zip(task.runs, curves, strict=True)], task.deciding),
        budget_scores(task.runs, curves, task.budgets),
        [problem for curve in curves for problem in curve.problems],
        [step for run, step in zip(task.runs, last, strict=True) if run.failed],
    )
