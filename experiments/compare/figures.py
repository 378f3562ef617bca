"""Panels put into files: one by one for the page, and as figures of a kind for papers, SVG and PNG."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.compare.comparing import Question
from experiments.compare.palette import looks
from experiments.compare.panels import Panel, panels
from experiments.compare.report import Section
from experiments.compare.terminal import printable

KINDS = ("curves", "layers", "sensitivity", "differences")
_STYLE = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "text.parse_math": False,  # a $ in a name is a $
    "svg.fonttype": "none",
    "svg.hashsalt": "hardgrad",
}
# Inches, set by hand: matplotlib's own layout draws everything twice, which is most of a report's time.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 3.6, 2.5, 0.6, 0.1, 0.28, 0.45
_LETTER, _LINE = 0.075, 0.2  # width of one, height of the other


@contextmanager
def style() -> Iterator[Any]:
    """Our style and matplotlib's figure class, without a display, and without touching the caller's settings."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a letter that the font lacks is drawn as a box
        yield Figure


def page_panels(section: Section, question: Question) -> list[tuple[str, str]]:
    """Title and SVG of each panel, without legends: the page has one of its own."""
    found = []
    for panel in panels(section, question):
        with style():
            figure, (axes,), _ = _grid([panel], section, 1, titles=False, below=0.0)
            panel.draw(axes)
            found.append((panel.title, svg(figure)))
    return found


def write_figures(section: Section, question: Question, stem: Path) -> None:
    """`<stem>_<kind>.svg` and `.png`, one figure a kind, with a legend."""
    drawn = panels(section, question)
    for kind in KINDS:
        own = [panel for panel in drawn if panel.kind == kind]
        if own:
            save(_figure(section, own), stem.with_name(f"{stem.name}_{kind}"))


def _figure(section: Section, drawn: Sequence[Panel]) -> Any:
    from matplotlib.lines import Line2D

    seen = looks(section.arms)
    columns = max(1, min(4, int(2 * _WIDTH / (0.6 + _LETTER * max(map(len, seen))))))
    with style():
        below = 0.0 if drawn[0].kind == "differences" else _LINE * -(-len(seen) // columns) + 0.1
        figure, grid, size = _grid(drawn, section, min(3, len(drawn)), True, below)
        for axes, panel in zip(grid, drawn, strict=True):
            panel.draw(axes)
            axes.set_title(printable(panel.title), loc="left")
        figure.text(0.05 / size[0], 1 - 0.06 / size[1], printable(section.name), va="top", fontsize=10)
        if drawn[0].kind == "differences":  # whose rows have names
            return figure
        lines = [
            Line2D([], [], color=look.colour, linestyle=look.dash, marker=look.marker, markersize=4)
            for look in seen.values()
        ]
        figure.legend(lines, [printable(name) for name in seen], loc="lower center", ncols=columns)
    return figure


def _grid(
    drawn: Sequence[Panel], section: Section, columns: int, titles: bool, below: float
) -> tuple[Any, list[Any], tuple[float, float]]:
    """A figure with axes for the panels, row by row, `below` inches free under them, and its size in inches."""
    rows = -(-len(drawn) // columns)
    listing = drawn[0].kind == "differences"  # its labels are names, one a row
    left = 0.25 + _LETTER * max(len(name) for _, name in section.arms) if listing else _LEFT
    high = max(1.2, _LINE * len(section.arms) + 0.8) if listing else _HEIGHT
    wide = _WIDTH + left - _LEFT
    top, heading = (_TOP, 0.25) if titles else (0.06, 0.0)
    size = (max(columns * wide, 2 * _WIDTH if titles else 0.0), rows * high + heading + below)
    with style() as figure_class:
        figure = figure_class(figsize=size)
        axes = []
        for index in range(len(drawn)):
            row, column = divmod(index, columns)
            x, y = column * wide + left, size[1] - heading - (row + 1) * high + _BOTTOM
            box = (x / size[0], y / size[1], (wide - left - _RIGHT) / size[0], (high - top - _BOTTOM) / size[1])
            axes.append(figure.add_axes(box))
    return figure, axes, size


def svg(figure: Any) -> str:
    """A figure as SVG, its text as text."""
    text = io.StringIO()
    with style():
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def save(figure: Any, stem: Path) -> None:
    """Writes a figure as SVG and PNG."""
    with style():
        figure.savefig(f"{stem}.svg", metadata={"Date": None})
        figure.savefig(f"{stem}.png", dpi=150)
