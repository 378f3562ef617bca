"""Gives every strategy one place in the order and one look, the same in every figure, page and report.

A strategy has a colour for white paper, a lighter one of the same hue for dark pages, and a dash. Strategies of one
dash differ in colour for every kind of colour vision, and in grey; tests/test_palette.py measures both. The first four
colours are those of Okabe and Ito.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Dash = str | tuple[int, tuple[int, ...]]

DASHES: tuple[Dash, ...] = (
    "-",
    "--",
    "-.",
    (0, (6, 1, 1, 1, 1, 1)),
    (0, (9, 3)),
    (0, (3, 1)),
    (0, (9, 2, 3, 2)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# In the order of tables and legends, strategy: colour on white, colour on a dark page, index of its dash.
PALETTE = {
    "subgradient": ("#000000", "#F2F2F2", 0),
    "ste": ("#0072B2", "#4DA7EA", 0),
    "smooth": ("#D55E00", "#FEA06F", 1),
    "rewrite": ("#009E73", "#5AD5A6", 2),
    "dither": ("#2E97C4", "#6BCDFD", 5),
    "gumbel": ("#CC5FA8", "#FE9CDB", 3),
    "gumbel_rao": ("#7A1E5E", "#DA77B6", 2),
    "perturbed": ("#7F7F7F", "#D6D6D6", 4),
    "proximal": ("#5F5F00", "#A2A455", 5),
    "reinmax": ("#3B2FB8", "#8793FD", 1),
    "sampled": ("#6B4410", "#C19564", 3),
    "zgr": ("#6A3FB0", "#AB84FB", 4),
}
FIRST = tuple(PALETTE)[:4]
# For lines that are not strategies: the colours of Okabe and Ito without yellow, which is hard to see on paper.
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7F7F7F")

_STYLE = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "text.parse_math": False,  # a $ in a name is a $
    "svg.fonttype": "none",
    "svg.hashsalt": "hardgrad",
}


def rank(strategy: str) -> tuple[int, str]:
    """Returns the key that sorts strategies in tables and legends as in the palette; others come last, by name."""
    return (list(PALETTE).index(strategy) if strategy in PALETTE else len(PALETTE), strategy)


@dataclass(frozen=True)
class Look:
    """Colour on white, colour on a dark page, dash and marker of a variant."""

    colour: str
    on_dark: str
    dash: Dash
    marker: str


def looks(variants: Iterable[tuple[str, str]]) -> dict[str, Look]:
    """Returns the look of each (strategy, name), by name: one colour a strategy, one dash and marker a variant.

    Strategies without a place in the palette repeat its colours with other dashes.
    """
    variants = list(variants)
    others = sorted({strategy for strategy, _ in variants} - set(PALETTE))
    found: dict[str, Look] = {}
    for strategy, name in variants:
        position = [other for own, other in variants if own == strategy].index(name)
        turn, hue = divmod(others.index(strategy), len(PALETTE)) if strategy in others else (-1, 0)
        colour, on_dark, dash = PALETTE[strategy] if turn < 0 else list(PALETTE.values())[hue]
        dash += turn + 1 + position
        marker = MARKERS[(turn + 1 + position) % len(MARKERS)]
        found[name] = Look(colour, on_dark, DASHES[dash % len(DASHES)], marker)
    return found


@contextmanager
def style() -> Iterator[Any]:
    """Sets our style for a block and yields matplotlib's figure class; the caller's settings stay."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # matplotlib draws a box for a letter that the font lacks
        yield Figure
