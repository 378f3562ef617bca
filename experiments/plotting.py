"""Gives every strategy one place in the order and one colour, the same in every report.

The colours are those of Okabe and Ito, distinct for colour-blind readers and in grey, without yellow, which is hard to
see on paper. From the ninth strategy on they repeat, with dashed lines.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from experiments.conf_folder import CONF

FIRST = ("subgradient", "ste", "smooth", "rewrite")
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7F7F7F")
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

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

Dash = str | tuple[int, tuple[int, ...]]


@cache
def known_strategies() -> tuple[str, ...]:
    """Lists all strategies of this program: the four basic ones, then the others by name."""
    options = {path.stem for path in (CONF / "strategy").glob("*.yaml")}
    return (*FIRST, *sorted(options - set(FIRST)))


def rank(strategy: str) -> tuple[int, str]:
    """Returns the key that sorts strategies in tables and legends; unknown strategies come last."""
    return (known_strategies().index(strategy) if strategy in known_strategies() else len(known_strategies()), strategy)


@dataclass(frozen=True)
class Look:
    """Colour, dash and marker of a variant."""

    colour: str
    dash: Dash
    marker: str


def looks(variants: Iterable[tuple[str, str]]) -> dict[str, Look]:
    """Returns the look of each (strategy, name), by name: one colour a strategy, one dash a variant."""
    variants = list(variants)
    everyone = [*known_strategies(), *sorted({strategy for strategy, _ in variants} - set(known_strategies()))]
    found: dict[str, Look] = {}
    for strategy, name in variants:
        turn, hue = divmod(everyone.index(strategy), len(COLOURS))
        dash = turn + [other for own, other in variants if own == strategy].index(name)
        found[name] = Look(COLOURS[hue], DASHES[dash % len(DASHES)], MARKERS[dash % len(MARKERS)])
    return found


@contextmanager
def style() -> Iterator[Any]:
    """Sets our style for a block and yields matplotlib's figure class; the caller's settings stay."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # matplotlib draws a box for a letter that the font lacks
        yield Figure
