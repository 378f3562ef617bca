"""Draws panels and forest plots on matplotlib's axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.compare.forms.forests import Forest
from experiments.compare.forms.panels import Curve, Panel
from experiments.compare.forms.plain_text import printable
from experiments.plotting import Look

FEW_POINTS = 12  # a curve of fewer points has a marker at each


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


def draw_panel(axes: Any, panel: Panel, seen: Mapping[str, Look]) -> None:
    """Draws the curves of a panel."""
    for curve in panel.curves:
        _draw_curve(axes, curve, seen[curve.name], panel.filled, "o" if panel.kind == "sensitivity" else "x")
    axes.set_xlabel(panel.x)
    if panel.log_x:
        logarithmic(axes, "x")
    if panel.log_y:
        logarithmic(axes, "y")
        axes.set_ylim(bottom=max(axes.get_ylim()[0], panel.zero or 0.0))
    else:
        linear(axes)


def _draw_curve(axes: Any, curve: Curve, look: Look, filled: bool, mark: str) -> None:
    """Draws a curve: dotted where not all runs have a value, its marks, a gap at NaN."""
    style = {"color": look.colour, "marker": look.marker if len(curve.x) < FEW_POINTS else "", "markersize": 3}
    if not curve.whole.all():
        axes.plot(curve.x, curve.middle, linewidth=0.9, linestyle=":", color=look.colour)
    whole = np.where(curve.whole, curve.middle, np.nan)
    axes.plot(curve.x, whole, linewidth=1.6 if filled else 1.0, linestyle=look.dash, **style)
    if filled:
        axes.fill_between(curve.x, curve.low, curve.high, color=look.colour, alpha=0.15, linewidth=0)
    for x, y in curve.marks:
        axes.plot(x, y, marker=mark, markersize=7, color=look.colour, fillstyle="none", linestyle="")


def draw_forest(axes: Any, forest: Forest, seen: Mapping[str, Look]) -> None:
    """Draws a row a variant: a dot a seed, the interval as a bar, the mean as an upright line."""
    for place, row in enumerate(forest.rows):
        own = {"color": seen[row.name].colour}
        axes.plot([row.low, row.high], [place] * 2, linewidth=9, alpha=0.25, solid_capstyle="butt", **own)
        axes.plot(row.dots, [place] * len(row.dots), "o", markersize=3.5, **own)
        axes.plot(row.mean, place, marker="|", markersize=12, markeredgewidth=2, **own)
    if forest.zero:
        axes.axvspan(-forest.margin, forest.margin, color="0.9", zorder=0)
        axes.axvline(0, color="0.4", linewidth=0.8)
    axes.set_yticks(range(len(forest.rows)), [printable(row.name) for row in forest.rows])
    axes.set_ylim(len(forest.rows) - 0.5, -0.5)
    axes.set_xlabel(forest.unit)
