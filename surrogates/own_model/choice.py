"""Which op gets which strategy."""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field

import surrogates.ops
from surrogates.core import EmptyCell, Op, Strategy


class NotReplaced(Exception):
    """A call or module stays as it is; the message says why."""


@dataclass(frozen=True)
class StrategyByOp:
    """A default strategy and others by the name of an op, that of its file; an op under None is not replaced.

    `empty` says what happens to a pair that does not exist: `leave` it as it is, or `raise` EmptyCell.
    Raises TypeError for anything but a strategy, ValueError for an op that does not exist.
    """

    default: Strategy | None
    by_op: Mapping[str, Strategy | None] = field(default_factory=dict)
    empty: str = "leave"

    def __post_init__(self) -> None:
        if self.empty not in ("leave", "raise"):
            raise ValueError(f"empty must be 'leave' or 'raise', got {self.empty!r}")
        known = [module.name for module in pkgutil.iter_modules(surrogates.ops.__path__)]
        for name in self.by_op:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean '{near[0]}'?" if near else f"; ops: {', '.join(known)}"
                raise ValueError(f"there is no op '{name}'{hint}")
        for strategy in (self.default, *self.by_op.values()):
            if strategy is not None and not isinstance(strategy, Strategy):
                raise TypeError(f"expected a strategy or None, got {strategy!r}")

    def strategy(self, op: Op) -> Strategy:
        """The op's strategy. Raises NotReplaced if it has none, or for a pair that does not exist."""
        strategy = self.by_op.get(name_of(op), self.default)
        if strategy is None:
            raise NotReplaced("no strategy chosen")
        try:
            strategy.check(op)
        except EmptyCell as error:
            if self.empty == "raise":
                raise
            raise NotReplaced(str(error)) from error
        return strategy


def name_of(op: Op) -> str:
    """The name of the op's file."""
    return type(op).__module__.rpartition(".")[2]
