"""Draws panels: one figure a kind as SVG and PNG files, single panels for the page, and the heat map."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.compare.forms import tables
from experiments.compare.forms.overview import MOST_COLUMNS, overview, upright
from experiments.compare.forms.panels import Panel, panels
from experiments.compare.forms.plain_text import printable
from experiments.compare.report import ComparisonReport, Section
from experiments.compare.statistics.results import Question
from experiments.plotting import looks, style
from experiments.tracking.outputs import save_figure

KINDS = ("curves", "layers", "sensitivity", "differences")
# Inches, set by hand: with matplotlib's own layout drawing takes 1.8 times as long.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 3.6, 2.5, 0.6, 0.1, 0.28, 0.45
_HEADING, _LETTER, _LINE = 0.25, 0.075, 0.2  # heights of a heading and a line, width of a letter

Box = tuple[float, float, float, float]  # left, bottom, right, top in inches


def draw(section: Section, question: Question, stem: Path) -> list[tuple[str, str]]:
    """Writes `<stem>_<kind>.svg` and `.png`, one figure a kind, with a legend; returns title and SVG of each panel.

    The returned panels have no title and no legend: the page writes both.
    """
    drawn, found = panels(section, question), []
    for kind in KINDS:
        own = [panel for panel in drawn if panel.kind == kind]
        if own:
            figure, boxes = _figure(section, own)
            save(figure, stem.with_name(f"{stem.name}_{kind}"))
            found += list(zip([panel.title for panel in own], _cut(figure, boxes), strict=True))
    return found


def _cut(figure: Any, boxes: Sequence[Box]) -> Iterator[str]:
    """Yields each axes of a figure alone, as SVG; `boxes` are the places of the axes with their labels."""
    from matplotlib.transforms import Bbox

    for artist in (*figure.texts, *figure.legends):
        artist.set_visible(False)
    for shown, box in zip(figure.axes, boxes, strict=True):
        for axes in figure.axes:
            axes.set_visible(axes is shown)
        shown.set_title("", loc="left")
        yield svg(figure, bbox_inches=Bbox.from_extents(*box))


def _figure(section: Section, drawn: Sequence[Panel]) -> tuple[Any, list[Box]]:
    """Draws the panels as one figure; returns it and the place of each panel."""
    from matplotlib.lines import Line2D

    seen = looks(section.variants)
    columns = max(1, min(4, int(2 * _WIDTH / (0.6 + _LETTER * max(map(len, seen))))))
    with style():
        below = 0.0 if drawn[0].kind == "differences" else _LINE * -(-len(seen) // columns) + 0.1
        figure, boxes, size = _grid(drawn, section, below)
        for axes, panel in zip(figure.axes, drawn, strict=True):
            panel.draw(axes)
            axes.set_title(printable(panel.title), loc="left")
        figure.text(0.05 / size[0], 1 - 0.06 / size[1], printable(section.name), va="top", fontsize=10)
        if drawn[0].kind == "differences":  # a name beside each row replaces the legend
            return figure, boxes
        lines = [
            Line2D([], [], color=look.colour, linestyle=look.dash, marker=look.marker, markersize=4)
            for look in seen.values()
        ]
        figure.legend(lines, [printable(name) for name in seen], loc="lower center", ncols=columns)
    return figure, boxes


def _grid(drawn: Sequence[Panel], section: Section, below: float) -> tuple[Any, list[Box], tuple[float, float]]:
    """Makes a figure with axes for the panels, row by row, `below` inches free under them; their places, its size."""
    columns = min(3, len(drawn))
    rows = -(-len(drawn) // columns)
    listing = drawn[0].kind == "differences"  # its labels are names, one a row
    left = 0.25 + _LETTER * max(len(name) for _, name in section.variants) if listing else _LEFT
    high = max(1.2, _LINE * len(section.variants) + 0.8) if listing else _HEIGHT
    wide = _WIDTH + left - _LEFT
    size = (max(columns * wide, 2 * _WIDTH), rows * high + _HEADING + below)
    boxes: list[Box] = []
    with style() as figure_class:
        figure = figure_class(figsize=size)
        for index in range(len(drawn)):
            row, column = divmod(index, columns)
            x, y = column * wide, size[1] - _HEADING - (row + 1) * high
            inner = (x + left, y + _BOTTOM, wide - left - _RIGHT, high - _TOP - _BOTTOM)
            figure.add_axes((inner[0] / size[0], inner[1] / size[1], inner[2] / size[0], inner[3] / size[1]))
            boxes.append((x, y, x + wide, y + high - _TOP + 0.06))
    return figure, boxes, size


def svg(figure: Any, **place: Any) -> str:
    """Converts a figure, or a part of it, to SVG; text stays text."""
    text = io.StringIO()
    with style():
        figure.savefig(text, format="svg", metadata={"Date": None}, **place)
    return text.getvalue()


def save(figure: Any, stem: Path) -> None:
    """Writes a figure as SVG and PNG."""
    with style():
        save_figure(figure, stem.with_name(f"{stem.name}.svg"), metadata={"Date": None})
        save_figure(figure, stem.with_name(f"{stem.name}.png"), dpi=150)


def heat_map(report: ComparisonReport) -> Any:
    """Draws blocks by variants, with each score as number and colour; brighter is better."""
    rows, columns, grid = upright(*overview(report))
    means = np.array([[np.nan if score is None else score.mean for score in row] for row in grid], dtype=np.float64)
    width = 0.4 + _LETTER * max(map(len, rows)) + 0.62 * len(columns)
    height = 0.8 + _LETTER * max(map(len, columns)) + (0.38 if len(rows) <= MOST_COLUMNS else 0.26) * len(rows)
    with style() as figure_class:
        figure = figure_class(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        axes.grid(False)
        axes.spines[:].set_visible(False)
        colours = "cividis" if report.question.metric.sign > 0 else "cividis_r"
        image = axes.imshow(means, cmap=colours, aspect="auto")
        for row, column in np.ndindex(means.shape):
            text, colour = _cell(float(means[row, column]), image, report)
            axes.text(column, row, text, color=colour, ha="center", va="center", fontsize=8)
        axes.set_title(f"{report.question.metric.tag}, {tables.unit(report.question)}", loc="left")
        axes.set_xticks(range(len(columns)), [printable(name) for name in columns], rotation=45, ha="right")
        axes.set_yticks(range(len(rows)), [printable(name) for name in rows])
    return figure


def _cell(mean: float, image: Any, report: ComparisonReport) -> tuple[str, str]:
    if np.isnan(mean):
        return tables.NONE, "0.5"
    dark = (image.norm(mean) < 0.5) == (report.question.metric.sign > 0)
    return tables.value(mean, report.question), "white" if dark else "black"
