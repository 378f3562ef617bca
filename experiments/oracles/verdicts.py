"""Turns confidence intervals into verdicts.

A verdict on several intervals is about all of them. It is True if each interval lies on the expected side, False if one
lies wholly on the other side, and None, undecided, otherwise. The intervals of a verdict hold together with 95 %: each
has the level `together(count)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from experiments.oracles.intervals import Interval


def above(intervals: Iterable[Interval], bound: float) -> bool | None:
    """Whether all true values lie above the bound."""
    return within(intervals, bound, math.inf)


def below(intervals: Iterable[Interval], bound: float) -> bool | None:
    """Whether all true values lie below the bound."""
    return within(intervals, -math.inf, bound)


def within(intervals: Iterable[Interval], low: float, high: float) -> bool | None:
    """Whether all true values lie between the bounds."""
    found = list(intervals)
    if all(low < i.low and i.high < high for i in found):
        return True
    return False if any(i.high < low or high < i.low for i in found) else None


def words(interval: Interval, form: str = ".2f") -> str:
    """Returns `mean (low to high)`."""
    ends = "no interval" if math.isnan(interval.low) else f"{interval.low:{form}} to {interval.high:{form}}"
    return f"{interval.mean:{form}} ({ends})"
