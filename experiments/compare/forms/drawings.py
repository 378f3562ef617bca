"""Draws the figures of the report: one a kind and block as SVG and PNG files, and the heat map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.compare.forms import tables
from experiments.compare.forms.axes import draw_forest, draw_panel
from experiments.compare.forms.forests import Forest, difference_forest, score_forest
from experiments.compare.forms.overview import MOST_COLUMNS, overview, upright
from experiments.compare.forms.panels import Panel, panels
from experiments.compare.forms.plain_text import printable
from experiments.compare.report import ComparisonReport, Section
from experiments.compare.statistics.results import Question
from experiments.plotting import Look, style
from experiments.tracking.outputs import save_figure

KINDS = ("curves", "layers", "sensitivity")
# Inches, set by hand: with matplotlib's own layout drawing takes 1.8 times as long.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 3.6, 2.5, 0.6, 0.1, 0.28, 0.45
_HEADING, _LETTER, _LINE = 0.25, 0.075, 0.2  # heights of a heading and a line, width of a letter


def draw(section: Section, question: Question, seen: Mapping[str, Look], stem: Path) -> None:
    """Writes `<stem>_<kind>.svg` and `.png` of all panels of a kind, of the scores and of the differences."""
    drawn = panels(section)
    seen = {name: seen[name] for _, name in section.variants}
    for kind in KINDS:
        own = [panel for panel in drawn if panel.kind == kind]
        if own:
            save(_panel_figure(section.name, own, seen), stem.with_name(f"{stem.name}_{kind}"))
    forests = {"scores": score_forest(section, question), "differences": difference_forest(section, question)}
    for kind, forest in forests.items():
        if forest and forest.rows:
            save(_forest_figure(section.name, forest, seen), stem.with_name(f"{stem.name}_{kind}"))


def _panel_figure(name: str, drawn: Sequence[Panel], seen: Mapping[str, Look]) -> Any:
    """Draws panels row by row, with a legend below them."""
    from matplotlib.lines import Line2D

    columns = min(3, len(drawn))
    rows = -(-len(drawn) // columns)
    entries = max(1, min(4, int(2 * _WIDTH / (0.75 + _LETTER * max(map(len, seen))))))
    below = _LINE * -(-len(seen) // entries) + 0.1
    width, height = max(columns, 2) * _WIDTH, rows * _HEIGHT + _HEADING + below
    with style() as figure_class:
        figure = figure_class(figsize=(width, height))
        for index, panel in enumerate(drawn):
            row, column = divmod(index, columns)
            left, bottom = column * _WIDTH + _LEFT, height - _HEADING - (row + 1) * _HEIGHT + _BOTTOM
            size = (_WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM)
            axes = figure.add_axes((left / width, bottom / height, size[0] / width, size[1] / height))
            draw_panel(axes, panel, seen)
            axes.set_title(printable(panel.title), loc="left")
        figure.text(0.05 / width, 1 - 0.06 / height, printable(name), va="top", fontsize=10)
        lines = [
            Line2D([], [], color=look.colour, linestyle=look.dash, marker=look.marker, markersize=4)
            for look in seen.values()
        ]
        figure.legend(lines, [printable(name) for name in seen], loc="lower center", ncols=entries)
    return figure


def _forest_figure(name: str, forest: Forest, seen: Mapping[str, Look]) -> Any:
    """Draws a forest plot, with the names of the rows at the left; wider for long names."""
    left = 0.25 + _LETTER * max(len(row.name) for row in forest.rows)
    inner = max(0.5, _LINE * len(forest.rows) + 0.1)
    width, height = max(2 * _WIDTH, left + _WIDTH), inner + _HEADING + 0.1 + _BOTTOM
    with style() as figure_class:
        figure = figure_class(figsize=(width, height))
        box = (left / width, _BOTTOM / height, (width - left - _RIGHT) / width, inner / height)
        axes = figure.add_axes(box)
        draw_forest(axes, forest, seen)
        heading = printable(f"{name}: {forest.title}")
        figure.text(0.05 / width, 1 - 0.06 / height, heading, va="top", fontsize=10)
    return figure


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
        _mark_strategies(axes, report.looks, rows, columns)
    return figure


def _mark_strategies(axes: Any, seen: Mapping[str, Look], rows: Sequence[str], columns: Sequence[str]) -> None:
    """Draws a line in each variant's colour above its column, or left of its row."""
    for name, look in seen.items():
        if name in columns:
            at = columns.index(name)
            x, y, transform = [at - 0.4, at + 0.4], [1.0, 1.0], axes.get_xaxis_transform()
        else:
            at = rows.index(name)
            x, y, transform = [0.0, 0.0], [at - 0.4, at + 0.4], axes.get_yaxis_transform()
        axes.plot(x, y, color=look.colour, linestyle=look.dash, linewidth=3, transform=transform, clip_on=False)


def _cell(mean: float, image: Any, report: ComparisonReport) -> tuple[str, str]:
    if np.isnan(mean):
        return tables.NONE, "0.5"
    dark = (image.norm(mean) < 0.5) == (report.question.metric.sign > 0)
    return tables.value(mean, report.question), "white" if dark else "black"
