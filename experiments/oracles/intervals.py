"""Confidence intervals of means and of shares; all distributions are scipy's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate from n values and the ends of its confidence interval.

    The ends are NaN where there is no interval: for one value, or if all values of a mean agree.
    """

    mean: float
    low: float
    high: float
    n: int

    def moved(self, origin: float, unit: float = 1) -> Interval:
        """Returns the interval of (x - origin) / unit."""
        mean, low, high = ((end - origin) / unit for end in (self.mean, self.low, self.high))
        return Interval(mean, low, high, self.n)


def together(count: int) -> float:
    """1 - 0.05 / count, the level of each of `count` intervals that hold together with 95 % (Bonferroni)."""
    return 1 - (1 - LEVEL) / count


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """mean ± t_{n-1} s / sqrt(n) (Student 1908), one value for each net, teacher or instance."""
    from scipy import stats

    mean, n = fmean(values), len(values)
    spread = stdev(values) if n > 1 else 0.0
    if spread <= 1e-12 * abs(mean):  # rounding only: nothing is known about the spread
        return Interval(mean, math.nan, math.nan, n)
    low, high = stats.t.interval(level, n - 1, mean, spread / math.sqrt(n))
    return Interval(mean, float(low), float(high), n)


def share_interval(hits: int, n: int, level: float = LEVEL) -> Interval:
    """hits / n with the exact interval of Clopper and Pearson 1934.

    Raises ValueError unless 0 <= hits <= n and n >= 1.
    """
    from scipy import stats

    found = stats.binomtest(hits, n).proportion_ci(level, method="exact")
    return Interval(hits / n, float(found.low), float(found.high), n)


def share_difference_interval(a: Sequence[bool], b: Sequence[bool], level: float = LEVEL) -> Interval:
    """share(a) - share(b), where a[i] and b[i] are two outcomes of one instance.

    It is the share with a alone, minus the share with b alone. Each has an exact interval of level (1 + level) / 2, so
    both hold together at least `level` often (Bonferroni).
    Raises ValueError if the lengths differ or are 0.
    """
    pairs = list(zip(a, b, strict=True))
    of_a = share_interval(sum(x and not y for x, y in pairs), len(pairs), (1 + level) / 2)
    of_b = share_interval(sum(y and not x for x, y in pairs), len(pairs), (1 + level) / 2)
    return Interval(of_a.mean - of_b.mean, of_a.low - of_b.high, of_a.high - of_b.low, len(pairs))
