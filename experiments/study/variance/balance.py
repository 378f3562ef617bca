"""Makes a design balanced: every combination of the levels that are kept is there."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

Cell = tuple[Any, ...]  # one level of each factor


def levels_of(cells: Collection[Cell], factors: int) -> list[list[Any]]:
    """The levels of each factor; numbers in their order, others in the order in which they occur."""
    return [_in_order(list(dict.fromkeys(cell[axis] for cell in cells))) for axis in range(factors)]


def _in_order(levels: list[Any]) -> list[Any]:
    return sorted(levels) if all(isinstance(level, int | float) for level in levels) else levels


def balance(cells: Collection[Cell], factors: int) -> list[list[Any]]:
    """Levels of each factor of which all combinations are among the cells.

    While combinations are absent, it leaves out the level with the largest share of absent ones, the first of equal
    ones.
    """
    while True:
        levels = levels_of(cells, factors)
        combinations = math.prod(map(len, levels))
        if len(cells) == combinations:
            return levels
        present = {
            (axis, level): sum(cell[axis] == level for cell in cells) * len(own) / combinations
            for axis, own in enumerate(levels)
            for level in own
        }
        axis, worst = min(present, key=lambda place: present[place])
        cells = [cell for cell in cells if cell[axis] != worst]
