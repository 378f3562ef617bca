"""Permutation tests of a difference of means, and the smallest p that they can give."""

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


def holm(p: list[float]) -> list[float]:
    """Adjusted p values, max over j <= i of (m - j + 1) p_(j), at most 1 (Holm 1979); in the order given.

    Rejecting where the adjusted value is at most alpha makes any false rejection with chance alpha at most.
    """
    adjusted, running = [0.0] * len(p), 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        running = max(running, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = running
    return adjusted


def probability_of_improvement(a: Any, b: Any) -> float:
    """P(a > b) + P(a = b) / 2 over all pairs of runs: the Mann-Whitney statistic over n_a n_b.

    The chance that a run of a beats a run of b (Agarwal et al. 2021, arXiv 2108.13264).
    """
    from scipy import stats

    return float(stats.mannwhitneyu(a, b, method="asymptotic").statistic) / (len(a) * len(b))


def _ways(n_a: int, n_b: int, paired: bool) -> int:
    return 2**n_a if paired else comb(n_a + n_b, n_a)


def _mean(x: Any, axis: int) -> Any:
    return x.mean(axis)


def _difference(a: Any, b: Any, axis: int) -> Any:
    return a.mean(axis) - b.mean(axis)
