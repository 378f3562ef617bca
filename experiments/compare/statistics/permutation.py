"""Comparisons by rank with permutation tests, and the smallest p that they can give."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

ENUMERATED = 2**16  # up to this number of relabellings all are counted
DRAWN = 9_999  # relabellings drawn if there are more
SEED = 0


@dataclass(frozen=True)
class PermutationTest:
    """A two-sided p value, and the smallest p that this number of seeds can give."""

    p: float
    smallest: float


@dataclass(frozen=True)
class RankComparison:
    """The chance that a run of the first sample beats one of the second, and the test of equal ranks."""

    better: float
    test: PermutationTest


def permutation_test(a: Any, b: Any, paired: bool) -> PermutationTest:
    """Computes the two-sided p of a difference of means: twice the share of relabellings at least as far out.

    Paired: each a[i] - b[i] keeps or changes its sign (Fisher 1935, section 21), 2^n ways.
    Unpaired: the runs are relabelled, C(n_a + n_b, n_a) ways.
    Up to 65,536 ways are enumerated; of more ways 9,999 are drawn.
    p is 1 if a side has one seed.
    """
    from scipy import stats

    if min(len(a), len(b)) < 2:
        return PermutationTest(1.0, 1.0)

    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    count = ENUMERATED if _ways(len(a), len(b), paired) <= ENUMERATED else DRAWN
    settings: dict[str, Any] = {"n_resamples": count, "vectorized": True, "batch": 4096}
    settings["rng"] = np.random.default_rng(SEED)
    if paired:
        found = stats.permutation_test((a - b,), _mean, permutation_type="samples", **settings)
    else:
        found = stats.permutation_test((a, b), _difference, permutation_type="independent", **settings)
    return PermutationTest(float(found.pvalue), smallest_p(len(a), len(b), paired))


def smallest_p(n_a: int, n_b: int, paired: bool) -> float:
    """2 over the number of relabellings: 2 / 2^n for pairs, so that 5 seeds cannot reach 0.05.

    If relabellings are drawn, the observed labels count as one more.
    """
    ways = _ways(n_a, n_b, paired)
    return min(1.0, 2 / (ways if ways <= ENUMERATED else DRAWN + 1))


def seeds_to_reach(p: float, comparisons: int, most: int = 64) -> int:
    """The fewest pairs whose smallest p, multiplied by the number of comparisons, is at most `p`."""
    return next((n for n in range(1, most) if comparisons * smallest_p(n, n, True) <= p), most)


def compare_ranks(a: Any, b: Any, paired: bool) -> RankComparison:
    """Compares two samples by the ranks of all their values; larger is better, and -inf ranks lowest.

    `better` is P(a > b) + P(a = b) / 2 over all pairs of values: the Mann-Whitney statistic over n_a n_b, the chance
    that a run of a beats a run of b (Agarwal et al. 2021, arXiv 2108.13264). Equal values share their mean rank.
    """
    from scipy import stats

    ranks = stats.rankdata(np.concatenate([a, b]))
    of_a, of_b = ranks[: len(a)], ranks[len(a) :]
    better = (float(of_a.sum()) - len(a) * (len(a) + 1) / 2) / (len(a) * len(b))
    return RankComparison(better, permutation_test(of_a, of_b, paired))


def _ways(n_a: int, n_b: int, paired: bool) -> int:
    return 2**n_a if paired else comb(n_a + n_b, n_a)


def _mean(x: Any, axis: int) -> Any:
    return x.mean(axis)


def _difference(a: Any, b: Any, axis: int) -> Any:
    return a.mean(axis) - b.mean(axis)
