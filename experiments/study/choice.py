"""The best trial of each pair on validation data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from experiments.compare.statistics.metric import VALIDATION, Metric
from experiments.study.stage import TrialRun
from experiments.study.study_file import Pair
from experiments.study.trials import Trial


@dataclass(frozen=True)
class Choice:
    """The best trial of a pair, its mean validation accuracy over the choosing seeds, and the number of trials."""

    pair: Pair
    trial: Trial
    score: float
    trials: int

    def __str__(self) -> str:
        values = ", ".join(f"{key}={value}" for key, value in self.trial.items()) or "no key of the grids has an effect"
        return f"{self.pair.name}: {values} ({100 * self.score:.1f} % on validation data, {self.trials} trials)"


def choose(runs: Sequence[TrialRun]) -> list[Choice]:
    """The trial of each pair with the highest mean over the seeds; the first of equal ones."""
    scores: dict[Pair, dict[tuple[tuple[str, Any], ...], list[float]]] = {}
    for one in runs:
        score = max(0.0, Metric(VALIDATION).of(one.run) or 0.0)  # a failed run may have none
        scores.setdefault(one.pair, {}).setdefault(tuple(one.trial.items()), []).append(score)
    return [_best(pair, {trial: fmean(own) for trial, own in trials.items()}) for pair, trials in scores.items()]


def _best(pair: Pair, means: dict[tuple[tuple[str, Any], ...], float]) -> Choice:
    best = max(means, key=lambda trial: means[trial])
    return Choice(pair, dict(best), means[best], len(means))
