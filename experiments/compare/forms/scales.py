"""Axes of the page: from values to coordinates, and round numbers between their ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Tick = tuple[float, str]  # place and label


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, values: Any) -> Any:
        """Returns the coordinates of values."""
        change = np.log10 if self.log else np.asarray
        low, high = change(self.low), change(self.high)
        return self.start + (change(values) - low) / (high - low) * (self.end - self.start)

    @property
    def ticks(self) -> list[Tick]:
        """About five round numbers within the axis."""
        from matplotlib.ticker import LogLocator, MaxNLocator

        if self.log and self.high > 10 * self.low:
            powers = LogLocator(numticks=6) if self.high > 1000 * self.low else LogLocator(subs=(1, 2, 5))
            return self.label(powers.tick_values(self.low, self.high))
        even: Any = MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(self.low, self.high)
        step = even[1] - even[0]
        return self.label([round(value / step) * step for value in even])  # exactly 0 where rounding left 1e-17

    def label(self, values: Sequence[float]) -> list[Tick]:
        """Labels those of the values that lie within the axis."""
        inside = [value for value in values if self.low <= value <= self.high]
        return [(round(float(self.place(value)), 1), f"{value:.6g}") for value in inside]


def axis(values: Sequence[float], start: float, end: float, log: bool = False, margin: float = 0.04) -> Axis:
    """Returns an axis that holds the values, with a margin on both sides."""
    low, high = min(values), max(values)
    if log:
        ratio = max(high / low, 1.1) ** margin
        return Axis(low / ratio, high * ratio, start, end, log)
    room = margin * (high - low) or 0.1 * max(abs(high), 1e-9) * (high == low)
    return Axis(low - room, high + room, start, end)
