"""The choice of a strategy for each op."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from surrogates.core import OPS, STRATEGIES, EmptyCell, Op, Strategy
from surrogates.naming.words import require_word
from surrogates.strategies.subgradient import Subgradient

CLIPS, ORDERS = ("maximum", "minimum"), ("max", "min", "sort", "top_k")


class NotReplaced(Exception):
    """Raised where a call or module is not replaced; the message is the reason."""


@dataclass(frozen=True)
class StrategyByOp:
    """A default strategy, and others by the name of an op's file; an op whose strategy is None is not replaced.

    Every clip consists of `maximum` and `minimum`; the name `clamp` is for both. If a clip or an order (`max`, `min`,
    `sort`, `top_k`) does not exist under the strategy, it has its subgradient: the same for every spelling of it.
    `empty` chooses what happens to a pair that does not exist: it is not replaced (`leave`), or EmptyCell is raised
    (`raise`).
    Raises ValueError if the name of an op or a strategy does not exist.
    Raises TypeError if a strategy is neither a strategy nor a name.
    """

    default: Strategy | str | None
    by_op: Mapping[str, Strategy | str | None] = field(default_factory=dict)
    empty: str = "leave"

    def __post_init__(self) -> None:
        require_word("empty", self.empty, ("leave", "raise"))
        for name in self.by_op:
            OPS.find(name)
        for strategy in (self.default, *self.by_op.values()):
            if strategy is not None:
                STRATEGIES.make(strategy)

    def strategy(self, op: Op) -> Strategy:
        """The op's strategy.

        Raises NotReplaced if the op has no strategy or the pair does not exist.
        """
        name = name_of(op)
        chosen = self.by_op.get(name, self.by_op.get("clamp" if name in CLIPS else name, self.default))
        if chosen is None:
            raise NotReplaced("no strategy chosen")
        strategy = STRATEGIES.make(chosen)
        try:
            strategy.check(op)
        except EmptyCell as error:
            if self.empty == "raise":
                raise
            if name in CLIPS + ORDERS:
                return Subgradient()
            raise NotReplaced(str(error)) from error
        return strategy


def name_of(op: Op) -> str:
    """The name of the op's file."""
    return type(op).__module__.rpartition(".")[2]
