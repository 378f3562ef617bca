"""Chooses each variant's learning rate and temperature by validation accuracy, on seeds that are not reported.

A failed run counts 0 in that choice, and only there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from experiments.compare.reading.run_record import RunRecord
from experiments.compare.statistics.blocks import RunBlock, Trial, Variant
from experiments.compare.statistics.estimates import mean_interval
from experiments.compare.statistics.intervals import ConfidenceInterval
from experiments.compare.statistics.metric import VALIDATION, Metric

_VALIDATION = Metric(VALIDATION)


@dataclass(frozen=True)
class Seeds:
    """The seeds on which trials are chosen, and those that are reported; `why` says how they were split."""

    choosing: tuple[int, ...]
    reported: tuple[int, ...]
    why: str = ""


@dataclass
class TrialChoice:
    """A variant's chosen trial.

    - `edges`: the tuned keys whose chosen value is the smallest or largest tried
    - `curve`: each trial's validation accuracy on the choosing seeds; without interval if one of its runs failed
    - `validation`: that of the chosen trial
    - `expected`: the average validation accuracy of the best of `equal_trials` trials, drawn at random
    - `runs`: the reported runs
    """

    variant: Variant
    trial: Trial
    edges: list[str]
    curve: list[tuple[dict[str, Any], ConfidenceInterval]]
    equal_trials: int
    expected: float | None
    validation: float | None
    runs: list[RunRecord]

    @property
    def trials(self) -> int:
        """Number of trials of the variant."""
        return len(self.variant.trials)


def split_seeds(block: RunBlock, given: tuple[int, ...] | None) -> Seeds:
    """Splits the seeds into those that choose and those that are reported; all are reported if nothing was tuned.

    If all trials share some seeds, and each variant ran the other seeds with one trial only (a sweep in two steps),
    the shared seeds choose. Otherwise (a full grid) the last third of the seeds choose.
    """
    every = sorted({seed for variant in block.variants for trial in variant.trials for seed in trial.runs})
    tuned = [variant for variant in block.variants if len(variant.trials) > 1]
    if given is not None:
        return Seeds(given, tuple(seed for seed in every if seed not in given), "chosen on the given seeds")
    if not tuned:
        return Seeds((), tuple(every))
    common = set.intersection(*(set(trial.runs) for variant in tuned for trial in variant.trials))
    single = [seed for seed in every if all(sum(seed in s.runs for s in variant.trials) <= 1 for variant in tuned)]
    if common and single:
        return Seeds(tuple(sorted(common)), tuple(single), "chosen on the seeds that every trial has")
    if len(every) == 1:
        return Seeds(tuple(every), tuple(every), "chosen and reported on the same seed, which overstates every score")
    last = every[-max(1, len(every) // 3) :]
    return Seeds(tuple(last), tuple(every[: -len(last)]), "chosen on the last third of the seeds")


def choose(block: RunBlock, seeds: Seeds) -> list[TrialChoice]:
    """Chooses the best trial of every variant; of equal trials the one with more reported runs."""
    equal = min(len(variant.trials) for variant in block.variants)
    return [_choice(variant, seeds, equal) for variant in block.variants]


def _choice(variant: Variant, seeds: Seeds, equal: int) -> TrialChoice:
    scored = [(trial, interval) for trial in variant.trials if (interval := _validation(trial, seeds.choosing))]
    if len(variant.trials) == 1 or not scored:
        best = max(variant.trials, key=lambda trial: len(_reported_runs(trial, seeds)))
    else:
        best = max(scored, key=lambda pair: (pair[1].mean, len(_reported_runs(pair[0], seeds))))[0]
    means = [interval.mean for _, interval in scored]
    expected = expected_best(means, equal) if 1 <= equal <= len(means) else None
    validation = next((interval.mean for trial, interval in scored if trial is best), None)
    curve = [(trial.values, interval) for trial, interval in scored]
    reported = _reported_runs(best, seeds)
    return TrialChoice(variant, best, _edges(variant, best), curve, equal, expected, validation, reported)


def _validation(trial: Trial, seeds: tuple[int, ...]) -> ConfidenceInterval | None:
    """The trial's mean validation accuracy on these seeds; None if it has no score there."""
    found = [_VALIDATION.of(trial.runs[seed]) for seed in seeds if seed in trial.runs]
    scores = [score for score in found if score is not None]
    if scores and not all(map(math.isfinite, scores)):
        return ConfidenceInterval(fmean(max(0.0, score) for score in scores), math.nan, math.nan, len(scores))
    return mean_interval(scores, _VALIDATION.scale) if scores else None


def _reported_runs(trial: Trial, seeds: Seeds) -> list[RunRecord]:
    return [trial.runs[seed] for seed in seeds.reported if seed in trial.runs]


def _edges(variant: Variant, best: Trial) -> list[str]:
    edges = []
    for key, value in best.values.items():
        tried = {trial.values.get(key) for trial in variant.trials}
        numbers = sorted(v for v in tried if isinstance(v, (int, float)))
        if len(numbers) > 1 and value in (numbers[0], numbers[-1]):
            edges.append(key)
    return edges


def expected_best(scores: list[float], trials: int) -> float:
    """E[max of `trials` scores drawn without replacement] = sum_r s_(r) C(r - 1, m - 1) / C(K, m), s_(1) the smallest.

    The r-th smallest of K is the best of m drawn if the m - 1 others are among the r - 1 below it. This makes twelve
    trials comparable with four. Dodge et al. 2019, arXiv 1909.03004, propose it, with draws with replacement.
    """
    ways = math.comb(len(scores), trials)
    return sum(score * math.comb(rank, trials - 1) for rank, score in enumerate(sorted(scores))) / ways
