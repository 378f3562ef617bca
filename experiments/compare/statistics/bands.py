"""The middle and the band of a variant's runs, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from experiments.compare.reading.learning_curves import RunCurves
from experiments.compare.statistics.intervals import LEVEL

GAP = "gap/accuracy"  # soft minus hard validation accuracy; computed here, never logged
FEW = 5  # from this number of runs on, a band is an interval of the mean
_POSITIVE = ("loss/", "grad_norm/")
_SHARES, _SHARE_ENDS = ("accuracy/", "clip_fraction"), ("_fraction", "/flip_rate")

Scale = Literal["linear", "log", "logit"]


@dataclass(frozen=True)
class Band:
    """Runs by step: their mean, and what a figure shows of them, `middle` with the ends `low` and `high`.

    Below FEW runs: median, least and largest value. From FEW runs on: the mean and its 95 % t interval.
    Only finite values count; `n` is how many a step has, `of` the number of runs.
    The ends of an interval are NaN where n is 1.
    """

    steps: Any
    mean: Any
    middle: Any
    low: Any
    high: Any
    n: Any
    of: int


def scale_of(tag: str) -> Scale:
    """Returns the scale on which a tag's interval is computed: shares on logit, positive quantities on log."""
    if tag.startswith(_SHARES) or tag.endswith(_SHARE_ENDS):
        return "logit"
    return "log" if tag.startswith(_POSITIVE) or tag.endswith("_norm") else "linear"


def band(curves: Sequence[tuple[Any, Any]], of: int, scale: Scale = "linear") -> Band:
    """Computes the band of (steps, values), one a run.

    With g the scale's function, m the mean and s the standard deviation of the n values of a step, the ends of the
    interval are g^-1(g(m) ± t_{n-1} g'(m) s / sqrt(n)), by the delta method. They stay above 0 on the log scale and
    within 0 and 1 on the logit scale. Where g(m) is not finite, the scale is linear.
    """
    steps = np.unique(np.concatenate([steps for steps, _ in curves]))
    values = np.full((len(curves), len(steps)), np.nan)
    for row, (at, value) in enumerate(curves):
        values[row, np.searchsorted(steps, at)] = np.where(np.isfinite(value), value, np.nan)
    n = np.isfinite(values).sum(0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore"):
        mean = np.nansum(values, 0) / n
        middle, low, high = _range(values, n) if of < FEW else (mean, *_interval(values, mean, n, scale))
    return Band(steps, mean, middle, low, high, n, of)


def _range(values: Any, n: Any) -> tuple[Any, Any, Any]:
    """Median, least and largest of the n numbers of each column, whose NaN do not count."""
    ordered = np.sort(values, 0)  # NaN last

    def at(place: Any) -> Any:
        return np.take_along_axis(ordered, np.maximum(place, 0)[None], 0)[0]

    return (at((n - 1) // 2) + at(n // 2)) / 2, ordered[0], at(n - 1)


def _interval(values: Any, mean: Any, n: Any, scale: Scale) -> tuple[Any, Any]:
    """The ends of the 95 % t interval of each column's mean."""
    from scipy import stats

    spread = np.sqrt(np.nansum((values - mean) ** 2, 0) / (n - 1))
    half = stats.t.ppf((1 + LEVEL) / 2, np.maximum(n - 1, 1)) * spread / np.sqrt(n)
    half = np.where(n > 1, half, np.nan)
    if scale == "log":
        factor = np.exp(half / mean)
        return np.where(mean > 0, mean / factor, mean - half), np.where(mean > 0, mean * factor, mean + half)
    if scale == "logit":
        inside, odds = (mean > 0) & (mean < 1), mean / (1 - mean)
        factor = np.exp(half / (mean * (1 - mean)))
        low, high = 1 / (1 + factor / odds), 1 / (1 + 1 / (factor * odds))
        return np.where(inside, low, mean - half), np.where(inside, high, mean + half)
    return mean - half, mean + half


def bands(runs: Sequence[RunCurves]) -> dict[str, Band]:
    """Computes the band of every tag that any run has, and of the gap."""
    tags = dict.fromkeys(tag for run in runs for tag in run.curves)
    curves = {tag: [run.curves[tag] for run in runs if tag in run.curves] for tag in tags}
    found = {tag: band(own, len(runs), scale_of(tag)) for tag, own in curves.items()}
    gaps = [gap for run in runs if len((gap := gap_curve(run))[0])]
    return {**found, GAP: band(gaps, len(runs))} if gaps else found


def gap_curve(run: RunCurves) -> tuple[Any, Any]:
    """Returns soft minus hard validation accuracy at the steps that have both."""
    steps, soft, hard = np.intersect1d(run.steps("accuracy/val_soft"), run.steps("accuracy/val"), return_indices=True)
    return steps, run.values("accuracy/val_soft")[soft] - run.values("accuracy/val")[hard]
