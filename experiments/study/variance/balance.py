"""Makes a design balanced: it leaves out levels until every combination of the others is present."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

Combination = tuple[Any, ...]  # one level of each factor


def levels_of(present: Collection[Combination], factors: int) -> list[list[Any]]:
    """The levels of each factor: numbers in increasing order, others in the order in which they occur."""
    return [_in_order(list(dict.fromkeys(one[axis] for one in present))) for axis in range(factors)]


def _in_order(levels: list[Any]) -> list[Any]:
    return sorted(levels) if all(isinstance(level, int | float) for level in levels) else levels


def balance(present: Collection[Combination], factors: int) -> list[list[Any]]:
    """Levels of each factor whose combinations are all present.

    While a combination is absent, the level with the largest share of absent combinations is left out. Of levels with
    equal shares it is the first.
    """
    while True:
        levels = levels_of(present, factors)
        needed = math.prod(map(len, levels))
        if len(present) == needed:
            return levels
        shares = {
            (axis, level): sum(one[axis] == level for one in present) * len(own) / needed
            for axis, own in enumerate(levels)
            for level in own
        }
        axis, worst = min(shares, key=lambda place: shares[place])
        present = [one for one in present if one[axis] != worst]
