"""Decides what a block's answer is; `forms` puts it into words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import numpy as np

from experiments.compare.statistics.results import Difference, Verdict


def judge(scores: Mapping[str, Sequence[float]], difference: Callable[[str, str], Difference]) -> Verdict:
    """Compares the best variant with every other.

    `scores` by variant: larger is better, -inf for a failed run. The best has the largest mean, or, if runs failed, the
    largest mean rank. The reported runs choose it, so the family of its differences must be all pairs.
    """
    ordered = _order(scores)
    if len(ordered) < 2:
        return Verdict("alone", tuple(ordered))
    best, *others = ordered
    against = [difference(best, other) for other in others]
    worse = [d for d in against if d.verdict == "better"]
    level = [d for d in against if d.verdict != "better"]
    top = (best, *(d.baseline for d in level))
    if not level:
        return Verdict("winner", top, _smallest(worse))
    if all(d.verdict == "none" for d in against):
        return Verdict("too few", top, level[0])
    if all(d.verdict == "equivalent" for d in level):
        return Verdict("equivalent", top, max(level, key=lambda d: abs(d.interval.mean)))
    if len(others) == 1:
        return Verdict("unclear", top, level[0])
    return Verdict("several", top, _smallest(worse))


def _order(scores: Mapping[str, Sequence[float]]) -> list[str]:
    """The variants, best first."""
    from scipy import stats

    if all(math.isfinite(score) for own in scores.values() for score in own):
        means = {name: fmean(own) for name, own in scores.items()}
    else:
        ranks = iter(stats.rankdata(np.concatenate(list(scores.values()))).tolist())
        means = {name: fmean(next(ranks) for _ in own) for name, own in scores.items()}
    return sorted(means, key=lambda name: -means[name])


def _smallest(differences: Sequence[Difference]) -> Difference | None:
    """The smallest difference; one without a mean, where all runs failed, is the largest."""
    return min(differences, key=lambda d: (math.isnan(d.interval.mean), abs(d.interval.mean)), default=None)
