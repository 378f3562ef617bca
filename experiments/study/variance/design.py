"""Arranges the runs of a study's choosing stages as balanced designs, one for each group of pairs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from experiments.compare.reading.run_record import RunRecord
from experiments.compare.statistics.metric import VALIDATION, Metric
from experiments.config.folder_names import override_key
from experiments.study.choice import choose
from experiments.study.stage import TrialRun
from experiments.study.variance.anova import Numbers, residuals
from experiments.study.variance.balance import Combination, balance, levels_of
from experiments.sweep.listing import as_typed


@dataclass(frozen=True)
class Design:
    """The scores of a group of pairs that agree in all keys except the factors.

    - `group`: the keys that other groups do not all share; all keys if there are none
    - `levels`: the levels of each factor whose combinations are all present; `left_out`: the other levels
    - `scores`: validation accuracy, shape (levels of factor 1, ..., levels of factor k, seeds)
    """

    group: str
    levels: Mapping[str, Sequence[Any]]
    left_out: Mapping[str, Sequence[Any]]
    scores: Numbers

    @property
    def obstacle(self) -> str:
        """Why the design cannot be analysed; empty if it can."""
        few = [factor for factor, levels in self.levels.items() if len(levels) < 2]
        if few:
            return f"fewer than two levels of {few[0]} occur in all combinations"
        constant = np.abs(residuals(self.scores)).max() < 1e-9  # rounding
        return "the difference of two seeds is the same in all combinations" if constant else ""


def arrange(runs: Sequence[TrialRun], factors: Sequence[str]) -> list[Design]:
    """One design for each group of pairs; each combination of levels has the scores of its best trial.

    A combination with a diverged run at its best trial counts as absent.
    """
    groups: dict[tuple[str, ...], list[TrialRun]] = {}
    for one in runs:
        others = tuple(text for text in one.pair.overrides if override_key(text) not in factors)
        groups.setdefault(others, []).append(one)
    common = set.intersection(*map(set, groups))
    return [_design(_name(others, common), own, factors) for others, own in groups.items()]


def _name(others: Sequence[str], common: Collection[str]) -> str:
    return ", ".join(text for text in others if text not in common) or ", ".join(others) or "all pairs"


def _design(group: str, runs: Sequence[TrialRun], factors: Sequence[str]) -> Design:
    combinations: dict[Combination, list[TrialRun]] = {}
    for one in runs:
        combinations.setdefault(tuple(_level(one.run, factor) for factor in factors), []).append(one)
    best = {levels: _best_scores(own, factors) for levels, own in combinations.items()}
    scores = {levels: found for levels, found in best.items() if found is not None}
    kept = balance(scores, len(factors))
    dropped = [
        [level for level in every if level not in own]
        for every, own in zip(levels_of(combinations, len(factors)), kept, strict=True)
    ]
    levels, left_out = (dict(zip(factors, own, strict=True)) for own in (kept, dropped))
    shape = [*map(len, kept), len({one.run.seed for one in runs})]
    return Design(group, levels, left_out, np.array([scores[one] for one in product(*kept)]).reshape(shape))


def _level(run: RunRecord, factor: str) -> Any:
    value = {**run.config, **run.options}.get(factor)
    return as_typed(value) if isinstance(value, list) else value


def _best_scores(runs: Sequence[TrialRun], factors: Sequence[str]) -> list[float] | None:
    """The scores of the best trial in the order of seeds; None if one of its runs has no score."""
    tried = [replace(one, trial={key: one.trial[key] for key in one.trial if key not in factors}) for one in runs]
    (choice,) = choose(tried)
    best = sorted((one.run for one in tried if one.trial == choice.trial), key=lambda run: run.seed)
    scores = [score for run in best if (score := Metric(VALIDATION).of(run)) is not None and math.isfinite(score)]
    return scores if len(scores) == len(best) else None
