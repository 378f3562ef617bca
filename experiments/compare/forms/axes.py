"""Draws bands, on linear and logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.compare.statistics.bands import Band
from experiments.plotting import Look


def linear(axes: Any) -> None:
    """Makes the y axis linear, without an offset; values that differ by rounding only look equal."""
    low, high = axes.get_ylim()
    largest = max(abs(low), abs(high))
    if high - low < 1e-6 * largest:
        axes.set_ylim(low - 0.1 * largest, high + 0.1 * largest)
    axes.ticklabel_format(axis="y", useOffset=False)


def logarithmic(axes: Any, which: str) -> None:
    """Makes an axis logarithmic with plain numbers; if it spans few powers of ten, numbers between them too."""
    from matplotlib.ticker import FuncFormatter

    axes.set(**{f"{which}scale": "log"})
    axis = getattr(axes, f"{which}axis")

    def label(number: float, _: int | None) -> str:
        low, high = sorted(axis.get_view_interval())
        return f"{number:g}" if high / low < 100 and f"{number:.0e}"[0] in "25" else ""

    axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axis.set_minor_formatter(FuncFormatter(label))


def scale_band(band: Band, scale: float, most: int = 1000) -> Band:
    """Converts a band to the unit of the panel, and thins it to the points that a drawing can show."""
    keep = slice(None, None, -(-len(band.steps) // most))
    steps, n = band.steps[keep], band.n[keep]
    return replace(
        band, steps=steps, n=n, mean=band.mean[keep] * scale, low=band.low[keep] * scale, high=band.high[keep] * scale
    )


def floor_of(bands: Any) -> float:
    """Returns where a log axis shows 0: a decade below the smallest positive mean."""
    positive = [band.mean[np.isfinite(band.mean) & (band.mean > 0)] for band in bands]
    smallest = min((float(values.min()) for values in positive if len(values)), default=1.0)
    return max(smallest / 10, 1e-300)


def draw_band(axes: Any, band: Band, look: Look, floor: float | None, broke_off: Sequence[int], filled: bool) -> None:
    """Draws a band: dotted where not all runs have a value, a cross where a run failed, a gap at NaN."""

    def on_axis(values: Any) -> Any:
        return values if floor is None else np.where(np.isnan(values), np.nan, np.maximum(values, floor))

    mean = on_axis(band.mean)
    style = {"color": look.colour, "marker": look.marker if len(band.steps) < 12 else "", "markersize": 3}
    if (band.n < band.of).any():
        axes.plot(band.steps, mean, linewidth=0.9, linestyle=":", color=look.colour)
    axes.plot(
        band.steps,
        np.where(band.n == band.of, mean, np.nan),
        linewidth=1.6 if filled else 1.0,
        linestyle=look.dash,
        **style,
    )
    if filled:
        axes.fill_between(band.steps, on_axis(band.low), on_axis(band.high), color=look.colour, alpha=0.15, linewidth=0)
    for step in broke_off:
        at = int(np.searchsorted(band.steps, step, side="right")) - 1
        if at >= 0:
            axes.plot(step, mean[at], marker="x", markersize=6, color=look.colour, linestyle="")
