"""Mean and band over seeds, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.compare.reading.learning_curves import RunCurves
from experiments.compare.statistics.intervals import LEVEL

GAP = "gap/accuracy"  # soft minus hard validation accuracy; computed here, never logged


@dataclass(frozen=True)
class Band:
    """Mean over runs and the ends of its 95 % t interval, by step.

    Only finite values count; `n` is how many a step has, `of` the number of runs. The ends are NaN where n is 1.
    """

    steps: Any
    mean: Any
    low: Any
    high: Any
    n: Any
    of: int


def band(curves: Sequence[tuple[Any, Any]], of: int) -> Band:
    """Computes the band of (steps, values), one a run."""
    from scipy import stats

    steps = np.unique(np.concatenate([steps for steps, _ in curves]))
    values = np.full((len(curves), len(steps)), np.nan)
    for row, (at, value) in enumerate(curves):
        values[row, np.searchsorted(steps, at)] = value
    finite = np.isfinite(values)
    n = finite.sum(0)
    total = np.where(finite, values, 0.0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = total.sum(0) / n
        spread = np.sqrt((np.where(finite, values - mean, 0.0) ** 2).sum(0) / (n - 1))
        half = stats.t.ppf((1 + LEVEL) / 2, np.maximum(n - 1, 1)) * spread / np.sqrt(n)
    half = np.where(n > 1, half, np.nan)
    return Band(steps, mean, mean - half, mean + half, n, of)


def bands(runs: Sequence[RunCurves]) -> dict[str, Band]:
    """Computes the band of every tag that any run has, and of the gap."""
    tags = dict.fromkeys(tag for run in runs for tag in run.curves)
    found = {tag: band([run.curves[tag] for run in runs if tag in run.curves], len(runs)) for tag in tags}
    gaps = [gap for run in runs if len((gap := gap_curve(run))[0])]
    return {**found, GAP: band(gaps, len(runs))} if gaps else found


def gap_curve(run: RunCurves) -> tuple[Any, Any]:
    """Returns soft minus hard validation accuracy at the steps that have both."""
    steps, soft, hard = np.intersect1d(run.steps("accuracy/val_soft"), run.steps("accuracy/val"), return_indices=True)
    return steps, run.values("accuracy/val_soft")[soft] - run.values("accuracy/val")[hard]
