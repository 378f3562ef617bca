"""Draws the means of an analysis of variance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from experiments.plotting import COLOURS, DASHES, MARKERS, style
from experiments.study.variance.design import Design
from experiments.sweep.listing import as_typed


def figure(designs: Sequence[Design]) -> Any:
    """Mean validation accuracy: a line for each level of the first factor, the second factor along x.

    A row for each design, a panel for each combination of the other factors.
    """
    others = [list(product(*list(design.levels.values())[2:])) for design in designs]
    rows, columns = len(designs), max(map(len, others))
    lines = list(dict.fromkeys(level for design in designs for level in next(iter(design.levels.values()))))
    with style() as figure_class:
        drawn = figure_class(figsize=(3.2 * columns + 1, 2.4 * rows + 1), layout="constrained")
        grid = drawn.subplots(rows, columns, sharey="row", squeeze=False)
        for panels, design, combinations in zip(grid, designs, others, strict=True):
            for panel, levels in zip(panels, combinations, strict=False):
                _draw(panel, design, levels, lines)
            panels[0].set_ylabel("validation accuracy %")
            for panel in panels[len(combinations) :]:
                panel.set_axis_off()
        handles = {
            text: line for panel in grid.flat for line, text in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        drawn.legend(handles.values(), handles, loc="outside lower center", ncols=4)
    return drawn


def _draw(panel: Any, design: Design, others: tuple[Any, ...], lines: Sequence[Any]) -> None:
    """Draws one panel; `others` are the levels of the factors after the second."""
    factors, levels = list(design.levels), list(design.levels.values())
    places = [own.index(level) for own, level in zip(levels[2:], others, strict=True)]
    means = 100 * design.scores.mean(-1)[(..., *places)]
    for level, own in zip(levels[0], means, strict=True):
        turn = lines.index(level)
        look = {"color": COLOURS[turn % len(COLOURS)], "marker": MARKERS[turn % len(MARKERS)], "markersize": 4}
        panel.plot(range(len(own)), own, label=as_typed(level), linestyle=DASHES[turn % len(DASHES)], **look)
    panel.set_xticks(range(len(levels[1])), map(as_typed, levels[1]))
    fixed = [f"{factor}={as_typed(level)}" for factor, level in zip(factors[2:], others, strict=True)]
    panel.set(title="\n".join([design.group, *fixed]), xlabel=factors[1])
