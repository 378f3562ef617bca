"""Confidence intervals of a mean and of a difference of means; all distributions are scipy's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Method = Literal["t", "bca"]
METHODS: tuple[Method, ...] = ("t", "bca")
LEVEL = 0.95
RESAMPLES = 9_999  # of the bootstrap
SEED = 0  # of the bootstrap: the same runs give the same report


@dataclass(frozen=True)
class ConfidenceInterval:
    """An estimate, the ends of its confidence interval, and the number n of seeds.

    The ends are NaN for one seed, whose spread is unknown.
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2


def mean_interval(x: Any, method: Method = "t", level: float = LEVEL) -> ConfidenceInterval:
    """mean(x) with its interval; x (n,) one number a seed.

    `t`: mean ± t_{n-1} s / sqrt(n) (Student 1908), exact for normal data at every n.
    `bca`: bias-corrected and accelerated bootstrap (Efron 1987); its interval is too short below about 20 seeds.
    Raises ValueError if there is no number, or one is not finite.
    """
    from scipy import stats

    x = _check(x)
    mean, n = float(x.mean()), len(x)
    if n == 1:
        return ConfidenceInterval(mean, math.nan, math.nan, n)
    if _constant(x):
        return ConfidenceInterval(mean, mean, mean, n)
    if method == "t":
        low, high = stats.t.interval(level, n - 1, mean, x.std(ddof=1) / math.sqrt(n))
    else:
        low, high = _bca((x,), lambda x, axis: x.mean(axis), level)
    return ConfidenceInterval(mean, float(low), float(high), n)


def difference_interval(a: Any, b: Any, paired: bool, method: Method = "t", level: float = LEVEL) -> ConfidenceInterval:
    """mean(a) - mean(b) with its interval.

    `paired`: a[i] and b[i] share a seed, and the interval is that of the mean of a - b.
    Unpaired: Welch's t (1947), which allows two different spreads, or a bootstrap of both samples. If the values of
    one side are equal, only the other side's degrees of freedom count.
    `n` is the number of pairs, or the smaller number of seeds.
    Raises ValueError as `mean_interval` does, or if pairs have unequal lengths.
    """
    from scipy import stats

    a, b = _check(a), _check(b)
    if paired:
        if len(a) != len(b):
            raise ValueError(f"paired samples must have one length, got {len(a)} and {len(b)}")
        return mean_interval(a - b, method, level)
    mean, n = float(a.mean() - b.mean()), min(len(a), len(b))
    if n == 1:
        return ConfidenceInterval(mean, math.nan, math.nan, n)
    if _constant(a) and _constant(b):
        return ConfidenceInterval(mean, mean, mean, n)
    if method == "t":
        of_a, of_b = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)  # variances of the means
        freedom = (of_a + of_b) ** 2 / (of_a**2 / (len(a) - 1) + of_b**2 / (len(b) - 1))
        low, high = stats.t.interval(level, freedom, mean, math.sqrt(of_a + of_b))
    else:
        low, high = _bca((a, b), lambda a, b, axis: a.mean(axis) - b.mean(axis), level)
    return ConfidenceInterval(mean, float(low), float(high), n)


def seeds_needed(
    a: Any, b: Any, paired: bool, half_width: float, level: float = LEVEL, most: int = 100_000
) -> int | None:
    """The smallest n with t_{n-1} s / sqrt(n) <= half_width, if the observed spread s is the true one.

    s is that of the paired differences; unpaired, s^2 = s_a^2 + s_b^2 with n seeds each and 2n - 2 degrees of freedom.
    None if there is one seed, whose spread is unknown, or if `most` seeds are too few.
    """
    from scipy import stats

    a, b = _check(a), _check(b)
    if min(len(a), len(b)) < 2:
        return None
    spread = (a - b).std(ddof=1) if paired else math.hypot(a.std(ddof=1), b.std(ddof=1))
    counts = np.arange(2, most + 1)
    freedom = counts - 1 if paired else 2 * counts - 2
    enough = stats.t.ppf((1 + level) / 2, freedom) * spread / np.sqrt(counts) <= half_width
    return int(counts[enough.argmax()]) if enough.any() else None


def _constant(x: Any) -> bool:
    """Whether the numbers differ by rounding only."""
    return bool(np.ptp(x) <= 1e-12 * np.abs(x).max())


def _bca(samples: tuple[Any, ...], statistic: Any, level: float) -> Any:
    from scipy import stats

    generator = np.random.default_rng(SEED)
    settings: dict[str, Any] = {"confidence_level": level, "n_resamples": RESAMPLES, "method": "BCa", "rng": generator}
    return stats.bootstrap(samples, statistic, vectorized=True, **settings).confidence_interval


def _check(x: Any) -> Any:
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 1 or not len(x):
        raise ValueError(f"an interval needs one number a seed, got shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError("an interval needs finite numbers; a failed run counts as a guess")
    return x
