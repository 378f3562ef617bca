"""Draws the table: bias against deviation, cosine and scale against depth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.oracles.contender_scores import ContenderScore
from experiments.plotting import Look, looks, style
from experiments.tracking.outputs import save_figure

DEEP = "deep binary, depth "
SHOWN = {  # contender: its name in the papers
    "sampled logistic": "ST",
    "ste identity at x + noise": "ST identity",
    "reinmax": "ReinMax",
    "gumbel soft": "Gumbel-softmax",
    "gumbel hard": "ST Gumbel-softmax",
    "smooth logistic": "soft forward",
    "perturbed logistic": "perturbed",
    "score_function": "score function",
}
OTHER = {"color": "#CCCCCC", "marker": "."}


def write(rows: Sequence[ContenderScore], path: Path) -> None:
    """Writes the figure as SVG and PNG.

    Raises OutputFailed if a file cannot be written.
    """
    figure = overview(rows)
    for suffix in (".svg", ".png"):
        save_figure(figure, path.with_suffix(suffix), dpi=150)


def overview(rows: Sequence[ContenderScore]) -> Any:
    """Draws a figure with four panels."""
    with style() as figure_class:
        figure = figure_class(figsize=(9, 6.4))
        axes = figure.subplots(2, 2).flatten()
        _plane(axes[0], [row for row in rows if row.setting == "binary network"])
        deep = [row for row in rows if row.setting.startswith(DEEP)]
        _against_depth(axes[1], deep, "cosine", "cosine of the mean")
        _against_depth(axes[2], deep, "scale", "best scale", log=True)
        _against_depth(axes[3], deep, "sample_cosine", "mean cosine of one sample")
        handles, labels = axes[1].get_legend_handles_labels()
        figure.subplots_adjust(left=0.09, right=0.98, top=0.95, bottom=0.17, hspace=0.35, wspace=0.25)
        figure.legend(handles, labels, loc="lower center", ncols=4)
    return figure


def look_of(contender: str) -> Look:
    """Returns the look of one of the contenders SHOWN: that of its strategy, which the name begins with."""
    return looks((name.split()[0], name) for name in SHOWN)[contender]


def _plane(axes: Any, rows: Sequence[ContenderScore]) -> None:
    axes.set(title="binary network", xlabel="deviation of one sample", ylabel="bias", yscale="log")
    axes.set_xscale("symlog", linthresh=0.1)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    for row in rows:
        known = row.contender in SHOWN
        own = {"color": look_of(row.contender).colour, "marker": look_of(row.contender).marker} if known else OTHER
        axes.plot(row.score.deviation, row.score.bias, linestyle="", zorder=2 + known, **own)


def _against_depth(axes: Any, rows: Sequence[ContenderScore], field: str, title: str, log: bool = False) -> None:
    axes.set(xlabel="depth, binary layers", ylabel=title, title=f"{title}, first layer")
    for name, label in SHOWN.items():
        points = [(int(r.setting.removeprefix(DEEP)), getattr(r.score, field)) for r in rows if r.contender == name]
        points = [(depth, value) for depth, value in points if value is not None]
        if points:
            look = look_of(name)
            drawn = {"color": look.colour, "linestyle": look.dash, "marker": look.marker, "markersize": 4}
            axes.plot(*zip(*points, strict=True), label=label, linewidth=1.2, **drawn)
    if log:
        axes.set_yscale("log" if all(v > 0 for v in axes.dataLim.intervaly) else "symlog")
        axes.yaxis.set_major_formatter("{x:g}")
