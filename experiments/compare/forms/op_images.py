"""Draws a hard layer's value and derivative over the histogram of its inputs."""

from __future__ import annotations

import io
from typing import Any

from experiments.compare.explaining.op_response import Response
from experiments.plotting import style

BINS = 60


def png(response: Response) -> bytes:
    """Draws a response as PNG."""
    with style() as figure_class:
        figure = figure_class(figsize=(5.2, 3.6), dpi=110)
        axes = figure.add_axes((0.1, 0.22, 0.86, 0.68))
        _histogram(axes.twinx(), response)
        axes.set_zorder(1)
        axes.patch.set_visible(False)
        grid = response.grid
        axes.plot(grid, response.derivative, color="#D55E00", linewidth=1.2, label="derivative")
        axes.plot(grid, response.value, color="#0072B2", linewidth=1.6, label="value in training")
        axes.plot(grid, response.hard, color="#000000", linewidth=1.0, linestyle="--", label="hard value")
        temperature = "" if response.temperature is None else f", T = {response.temperature:.3g}"
        figure.text(0.1, 0.93, f"{response.layer}: {response.op}, {response.strategy}{temperature}", fontsize=9)
        axes.set_xlabel("input")
        figure.legend(loc="lower center", ncols=3, fontsize=8)
        content = io.BytesIO()
        figure.savefig(content, format="png")
    return content.getvalue()


def _histogram(axes: Any, response: Response) -> None:
    """Draws the share of the inputs by value, in grey behind the curves."""
    inside = (response.inputs >= response.grid[0]) & (response.inputs <= response.grid[-1])
    axes.hist(response.inputs[inside].float().numpy(), bins=BINS, color="0.85")
    axes.set_yticks([])
    axes.grid(False)
