"""The rank correlation of two numbers within groups, with its bootstrap interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from experiments.oracles.intervals import Interval

RESAMPLES = 2000
FEWEST = 4  # members of a group that a correlation needs
Numbers = NDArray[np.float64]
Group = tuple[Numbers, Numbers]


def mean_rank_correlation(groups: Sequence[Group]) -> Interval | None:
    """The mean over groups of Spearman's correlation (1904), and its 95 % interval.

    Each group is two vectors (n,) over the same members; those with NaN do not count. A group needs FEWEST members, and
    different numbers in both vectors. The interval is that of the percentile bootstrap (Efron 1979): each resample
    draws every group's members anew, with repetition. None if no group counts.
    """
    known = [_without_nan(*group) for group in groups]
    kept = [(a, b) for a, b in known if len(a) >= FEWEST and len(set(a)) > 1 and len(set(b)) > 1]
    if not kept:
        return None
    generator = np.random.default_rng(0)
    resampled = [_resample(group, generator) for group in kept]
    mean = np.mean([spearman(*group) for group in kept])
    with np.errstate(invalid="ignore"):
        found = np.stack([spearman(*group) for group in resampled])
        means = np.nansum(found, axis=0) / (~np.isnan(found)).sum(0)  # a resample of one member has none
    low, high = np.nanquantile(means, [0.025, 0.975])
    return Interval(float(mean), float(low), float(high), sum(len(group[0]) for group in kept))


def spearman(a: Numbers, b: Numbers) -> Numbers:
    """The correlation of the ranks of (..., n) along the last dim, ties at their mean rank; NaN for equal numbers."""
    from scipy.stats import rankdata

    ranks = [rankdata(x, axis=-1) for x in (a, b)]
    x, y = (rank - rank.mean(-1, keepdims=True) for rank in ranks)
    found: Numbers = (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    return found


def _without_nan(a: Numbers, b: Numbers) -> Group:
    known = ~(np.isnan(a) | np.isnan(b))
    return a[known], b[known]


def _resample(group: Group, generator: np.random.Generator) -> Group:
    members = len(group[0])
    picks = generator.integers(members, size=(RESAMPLES, members))
    return group[0][picks], group[1][picks]
