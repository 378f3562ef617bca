"""Components by strategies at a glance."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.compare.forms import tables
from experiments.compare.forms.terminal import printable
from experiments.compare.report import Report
from experiments.plotting import style

_LETTER = 0.075  # inches


def heat_map(report: Report) -> Any:
    """Blocks by arms, the score as number and colour, the better the brighter; a pair without a score stays empty."""
    rows, columns, grid = tables.upright(*tables.overview(report))
    means = np.array([[np.nan if score is None else score.mean for score in row] for row in grid], dtype=np.float64)
    width = 0.4 + _LETTER * max(map(len, rows)) + 0.62 * len(columns)
    height = 0.8 + _LETTER * max(map(len, columns)) + (0.38 if len(rows) <= tables.MOST_COLUMNS else 0.26) * len(rows)
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


def _cell(mean: float, image: Any, report: Report) -> tuple[str, str]:
    if np.isnan(mean):
        return tables.NONE, "0.5"
    dark = (image.norm(mean) < 0.5) == (report.question.metric.sign > 0)
    return tables.value(mean, report.question), "white" if dark else "black"
