"""How well each measure of the gradient predicts each outcome, by optimizer and step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.oracles.intervals import Interval
from experiments.study.truth.measures import MEASURES, OUTCOMES, MeasuredRun
from experiments.study.truth.rank_correlation import Group, Numbers, mean_rank_correlation


@dataclass(frozen=True)
class Prediction:
    """The correlation of a measure with an outcome; `all` over all pairs, `nonzero` without those of gradient 0."""

    optimizer: str
    outcome: str
    measure: str
    step: int
    all: Interval | None
    nonzero: Interval | None


def predictions(runs: Sequence[MeasuredRun]) -> list[Prediction]:
    """All correlations, in the order of optimizers, outcomes, measures and steps."""
    found = []
    for optimizer in dict.fromkeys(run.optimizer for run in runs):
        own = [run for run in runs if run.optimizer == optimizer]
        nonzero = [run for run in own if not run.zero_gradient]
        steps = sorted({step for run in own for step in run.measures})
        for outcome in OUTCOMES:
            for measure in MEASURES:
                for step in steps:
                    both = (_correlation(kept, outcome, measure, step) for kept in (own, nonzero))
                    found.append(Prediction(optimizer, outcome, measure, step, *both))
    return found


def _correlation(runs: Sequence[MeasuredRun], outcome: str, measure: str, step: int) -> Interval | None:
    components = dict.fromkeys(run.component for run in runs)
    groups = [[run for run in runs if run.component == component] for component in components]
    return mean_rank_correlation([_mean_ranks(group, outcome, measure, step) for group in groups])


def _mean_ranks(runs: Sequence[MeasuredRun], outcome: str, measure: str, step: int) -> Group:
    """Each pair's rank of the measure and of the outcome among its component's pairs, as means over the seeds."""
    names, seeds = (list(dict.fromkeys(values)) for values in ([r.name for r in runs], [r.seed for r in runs]))
    a, b = np.full((2, len(seeds), len(names)), np.nan)
    for run in runs:
        place = seeds.index(run.seed), names.index(run.name)
        a[place] = run.measures.get(step, {}).get(measure, np.nan)
        b[place] = run.outcomes[outcome]
    return _ranks(a).mean(0), _ranks(b).mean(0)


def _ranks(values: Numbers) -> Numbers:
    """Ranks along the last dim; NaN stays NaN."""
    from scipy.stats import rankdata

    ranked: Numbers = rankdata(values, axis=-1, nan_policy="omit")
    return ranked
