"""Subgradient: the derivative that holds almost everywhere."""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from surrogates.core import EmptyCell, Op, Strategy, detached, graft


@dataclass(frozen=True)
class Subgradient(Strategy):
    """The hard value with the derivative that holds almost everywhere.

    `rule` chooses the derivative at kinks (`minimum_norm`, `left`, `right`) and ties (`minimum_norm`, which shares it,
    and `first`). An op's `rules` are those that apply to it. At a jump the derivative is 0.
    """

    rule: Literal["minimum_norm", "left", "right", "first"] = "minimum_norm"

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        return graft(op.hard(*detached(x)), op.subgradient(*x, rule=self.rule))

    def check(self, op: Op) -> None:
        op.reading("subgradient")
        if self.rule not in op.rules:
            raise EmptyCell(
                f"{type(op).__name__} has no rule '{self.rule}' at its kinks; it has: {', '.join(op.rules)}"
            )
