"""Scores all variants of a block at equal optimizer steps and at equal wall-clock time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.compare.reading.learning_curves import RunCurves
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.statistics.estimates import mean_interval
from experiments.compare.statistics.intervals import ConfidenceInterval
from experiments.compare.statistics.metric import VALIDATION, Metric
from experiments.compare.statistics.results import Result


@dataclass(frozen=True)
class Budgets:
    """The smallest number of steps of any finished run, and the smallest mean time of any variant."""

    steps: int | None
    seconds: float | None


@dataclass(frozen=True)
class BudgetScores:
    """Best hard validation accuracy within the budgets, over finished runs; None if none has a score by then."""

    at_steps: ConfidenceInterval | None
    at_seconds: ConfidenceInterval | None


def budgets(result: Result) -> Budgets:
    """Computes the budgets of a block."""
    done = [run for choice in result.choices for run in choice.runs if run.outcome == "done"]
    steps = [int(run.config["max_steps"]) for run in done if isinstance(run.config.get("max_steps"), int)]
    seconds = [score.seconds for score in result.scores if score.seconds]
    return Budgets(min(steps, default=None), min(seconds, default=None))


def budget_scores(runs: Sequence[RunRecord], curves: Sequence[RunCurves], given: Budgets) -> BudgetScores:
    """Scores a variant within the budgets.

    A run's time, start-up included, is spread evenly over its steps. Runs of a stack have no score at equal time,
    because a stack's time cannot be attributed to a single run.
    """
    both = list(zip(runs, curves, strict=True))
    steps = [_score_by(run, curve, given.steps) for run, curve in both] if given.steps else []
    seconds = 0.0 if any(run.shares_time for run in runs) else given.seconds
    times = [_score_by(run, curve, _step_at(run, seconds)) for run, curve in both] if seconds else []
    return BudgetScores(_interval(steps), _interval(times))


def _step_at(run: RunRecord, seconds: float) -> int:
    if not run.seconds or not isinstance(run.config.get("max_steps"), int):
        return 0
    return int(run.config["max_steps"] * min(1.0, seconds / run.seconds))


def _score_by(run: RunRecord, curves: RunCurves, step: int) -> float | None:
    scored = curves.values(VALIDATION)[curves.steps(VALIDATION) <= step]
    return float(scored.max()) if run.outcome == "done" and len(scored) else None


def _interval(scores: list[float | None]) -> ConfidenceInterval | None:
    known = [score for score in scores if score is not None]
    return mean_interval(known, Metric(VALIDATION).scale) if known else None
