"""Computes panels and forest plots in the coordinates of the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.compare.forms.axes import FEW_POINTS
from experiments.compare.forms.forests import Forest
from experiments.compare.forms.panels import Curve, Panel
from experiments.compare.forms.scales import Axis, Tick, axis
from experiments.plotting import Dash, Look

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400, 240, 46, 14, 8, 38  # of a chart and of the margins around its axes
MOST_TICKS = 7  # values of a tuned key that are written out
_DASHES = {"-": "", "--": "7 3", "-.": "7 3 1.5 3"}


@dataclass(frozen=True)
class Line:
    """A variant's paths: the band, the middle, the middle where not all runs have a value, points and marks."""

    name: str
    band: str
    middle: str
    partly: str
    points: Sequence[tuple[float, float]]
    marks: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """A panel: its axes, the ticks of x, lines, and the values of x that have a point."""

    panel: Panel
    x: Axis
    x_ticks: Sequence[Tick]
    y: Axis
    lines: Sequence[Line]
    at: Sequence[float]


def charts(panels: Sequence[Panel]) -> list[Chart]:
    """Converts the panels of a block; those of one kind and quantity have the same limits of y."""
    values: dict[tuple[str, str], list[float]] = {}
    for panel in panels:
        values.setdefault((panel.kind, panel.quantity), []).extend(_extent(panel))
    return [_chart(panel, values[panel.kind, panel.quantity]) for panel in panels]


def _extent(panel: Panel) -> list[float]:
    drawn = [curve.middle for curve in panel.curves]
    drawn += [end for curve in panel.curves for end in (curve.low, curve.high)] if panel.filled else []
    values = np.concatenate(drawn)
    values = values[np.isfinite(values)]
    return [float(values.min()), float(values.max())]


def _chart(panel: Panel, values: Sequence[float]) -> Chart:
    x = np.unique(np.concatenate([curve.x for curve in panel.curves])).astype(float)
    across = axis([x[0], x[-1]], LEFT, WIDTH - RIGHT, panel.log_x, 0.03 if panel.kind == "sensitivity" else 0.0)
    up = axis(values, HEIGHT - BOTTOM, TOP, panel.log_y)
    if panel.zero is not None and min(values) <= panel.zero:
        up = replace(up, low=panel.zero)
    ticks = across.label(x.tolist()) if panel.kind == "sensitivity" and len(x) <= MOST_TICKS else across.ticks
    return Chart(panel, across, ticks, up, [_line(curve, panel, across, up) for curve in panel.curves], x.tolist())


def _line(curve: Curve, panel: Panel, across: Axis, up: Axis) -> Line:
    x, middle = across.place(curve.x), up.place(curve.middle)
    few = len(x) < FEW_POINTS
    return Line(
        curve.name,
        _area(x, up.place(curve.low), up.place(curve.high)) if panel.filled else "",
        _path(x, np.where(curve.whole, middle, np.nan)),
        "" if curve.whole.all() else _path(x, middle),
        _points(x, middle) if few else [],
        [(round(float(across.place(at)), 1), round(float(up.place(value)), 1)) for at, value in curve.marks],
    )


def _stretches(*rows: Any) -> Iterator[list[Any]]:
    """Yields the stretches of columns in which all rows are finite."""
    finite = np.isfinite(np.stack(rows)).all(0)
    for part in np.split(np.arange(len(finite)), np.flatnonzero(np.diff(finite)) + 1):
        if len(part) and finite[part[0]]:
            yield [row[part] for row in rows]


def _path(x: Any, y: Any) -> str:
    return "".join("M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(*part, strict=True)) for part in _stretches(x, y))


def _area(x: Any, low: Any, high: Any) -> str:
    parts = [(np.r_[x, x[::-1]], np.r_[high, low[::-1]]) for x, low, high in _stretches(x, low, high)]
    return "".join(_path(*part) + "Z" for part in parts)


def _points(x: Any, y: Any) -> list[tuple[float, float]]:
    return [(round(float(a), 1), round(float(b), 1)) for a, b in zip(x, y, strict=True) if np.isfinite(b)]


def dashes(look: Look) -> str:
    """Returns the dash of a line as SVG's stroke-dasharray; empty for a solid line."""
    dash: Dash = look.dash
    return _DASHES[dash] if isinstance(dash, str) else " ".join(f"{1.6 * part:g}" for part in dash[1])


def forest_rows(forest: Forest, seen: Mapping[str, Look]) -> tuple[list[dict[str, Any]], Axis]:
    """Returns the rows of a forest plot with places in percent of its width, and its axis."""
    numbers = [v for row in forest.rows for v in (row.mean, row.low, row.high, *row.dots) if np.isfinite(v)]
    across = axis([*numbers, *([-forest.margin, forest.margin] if forest.zero else [])], 0, 100)
    rows = []
    for row in forest.rows:
        known = np.isfinite(row.low)
        left, right = across.place([row.low, row.high]) if known else (0.0, 0.0)
        rows.append(
            {
                "name": row.name,
                "look": seen[row.name],
                "mean": float(across.place(row.mean)),
                "bar": (float(left), float(right - left)) if known else None,
                "dots": [float(across.place(dot)) for dot in row.dots],
            }
        )
    return rows, across
