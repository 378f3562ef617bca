"""Estimates of a mean score and of a difference of two, over seeds and, if outcomes are known, test samples.

A run's score is the mean of its outcomes on N test samples, which all runs share. So its outcomes vary by seed, by
sample and by both (two-way random effects, as in Roe and Metz 1997). The variance of the mean of n seeds has two parts:

    over seeds s2 / n, with s2 the variance of the seeds' means;
    over samples max(0, c2 - e2 / n) / N, with c2 the variance of the samples' means, e2 the interaction's mean square.

Without outcomes the second part is unknown: the interval covers training variation only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from experiments.compare.statistics.intervals import LEVEL, ConfidenceInterval, Estimate, Part, Scale

ROUNDING = 1e-12  # values that differ by this share of their size are equal


class _Table(NamedTuple):
    """n seeds: the part of the variance over them, the samples' means, and the interaction's mean square over n."""

    n: int
    seeds: Part
    samples: Any
    both: float


def mean_estimate(x: Any, outcomes: Any = None) -> Estimate:
    """mean(x), x (n,) one number a seed; `outcomes` (n, N), or None, is what the numbers are means of.

    Raises ValueError if there is no number, or one is not finite.
    """
    x = _check(x)
    return _estimate(float(x.mean()), [_table(x, outcomes)])


def difference_estimate(a: Any, b: Any, paired: bool, outcomes: tuple[Any, Any] | None = None) -> Estimate:
    """mean(a) - mean(b); `outcomes` are theirs on the same samples.

    `paired`: a[i] and b[i] share a seed. Unpaired: two spreads, as in Welch 1947; n is the smaller number of seeds.
    Raises ValueError as `mean_estimate` does, or if pairs have unequal lengths.
    """
    a, b = _check(a), _check(b)
    if not paired:
        own = outcomes or (None, None)
        return _estimate(float(a.mean() - b.mean()), [_table(a, own[0]), _table(b, own[1])])
    if len(a) != len(b):
        raise ValueError(f"paired samples must have one length, got {len(a)} and {len(b)}")
    differing = None if outcomes is None else outcomes[0].astype(np.int8) - outcomes[1].astype(np.int8)
    equal = np.isclose(a, b, rtol=ROUNDING, atol=0)
    return mean_estimate(np.where(equal, 0.0, a - b), differing)


def mean_interval(x: Any, scale: Scale = "number", level: float = LEVEL) -> ConfidenceInterval:
    """mean(x) with its interval, x (n,) one number a seed."""
    return mean_estimate(x).interval(scale, level)


def _estimate(mean: float, tables: list[_Table]) -> Estimate:
    n, seeds = min(table.n for table in tables), tuple(table.seeds for table in tables)
    if tables[0].samples is None:
        return Estimate(mean, n, seeds)
    means = tables[0].samples - sum(table.samples for table in tables[1:])
    common = means.var(ddof=1) - sum(table.both for table in tables)
    return Estimate(mean, n, seeds, Part(max(0.0, float(common)) / len(means), len(means) - 1))


def _table(x: Any, outcomes: Any) -> _Table:
    n = len(x)
    agree = np.ptp(x) <= ROUNDING * np.abs(x).max()
    seeds = Part(0.0 if agree else float(x.var(ddof=1)) / n, max(1, n - 1))
    if outcomes is None or min(outcomes.shape) < 2:
        return _Table(n, seeds, None, 0.0)
    by_sample, by_seed, count = outcomes.mean(0), outcomes.mean(1), outcomes.shape[1]
    mean = by_seed.mean()
    squares = np.count_nonzero(outcomes) - count * (by_seed**2).sum() - n * (by_sample**2).sum() + n * count * mean**2
    return _Table(n, seeds, by_sample, max(0.0, float(squares)) / ((n - 1) * (count - 1) * n))


def _check(x: Any) -> Any:
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 1 or not len(x):
        raise ValueError(f"an interval needs one number a seed, got shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError("an interval needs finite numbers; a failed run has no score")
    return x
