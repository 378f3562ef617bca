"""How many comparisons a statement must hold for together, and the level of each that follows."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Literal

from experiments.compare.statistics.intervals import ALPHA

Scope = Literal["report", "block"]
SCOPES: tuple[Scope, ...] = ("report", "block")


@dataclass(frozen=True)
class Family:
    """All pairs of variants that the answer may name, in the whole report or in one block."""

    pairs: int
    scope: Scope

    def level(self, alpha: float = ALPHA) -> float:
        """Confidence level of each interval, 1 - alpha / pairs (Bonferroni), so that all hold with chance 1 - alpha."""
        return 1 - alpha / max(1, self.pairs)

    def adjust(self, p: float) -> float:
        """min(1, pairs p): at most alpha exactly where the interval of `level(alpha)` excludes the tested value."""
        return min(1.0, max(1, self.pairs) * p)

    def __str__(self) -> str:
        if self.pairs < 2:
            return "One pair of strategies is compared, so nothing is adjusted."
        where = "of this block" if self.scope == "block" else "within the blocks of this report"
        return (
            f"The intervals and p of differences hold together, with chance 95 %, for all {self.pairs} pairs of "
            f"strategies {where} (Bonferroni)."
        )


def families(variants: list[int], scope: Scope) -> list[Family]:
    """Returns the family of each block, given the numbers of variants that have runs."""
    pairs = [comb(count, 2) for count in variants]
    return [Family(sum(pairs) if scope == "report" else own, scope) for own in pairs]
