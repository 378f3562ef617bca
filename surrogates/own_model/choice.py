"""The choice of a strategy for each op."""

from __future__ import annotations

from collections.abc import Mapping

from surrogates.core import OPS, STRATEGIES, EmptyCell, Op, Strategy
from surrogates.naming.words import require_word
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

CLIPS = ("maximum", "minimum")
REMEDIES = {  # what to write instead of torch's draws under other strategies
    "bernoulli": "(torch.rand_like(p) < p).float()",
    "multinomial": "(p.log() - torch.empty_like(p).exponential_().log()).topk(k).indices",
}


class NotReplaced(Exception):
    """Raised where a call or module is not replaced; the message is the reason."""


class StrategyByOp:
    """A default strategy, and others by the name of an op's file; an op whose strategy is None is not replaced.

    A straight-through default is for the ops whose derivative is 0 almost everywhere. A continuous op keeps its own
    derivative, as its subgradient, unless it is named.
    Every clip consists of `maximum` and `minimum`; the name `clamp` is for both. `bernoulli` and `multinomial` name
    torch's draws.
    `empty` chooses what happens to a pair that is not applicable. With `leave` a continuous op gets its subgradient and
    another op is not replaced. With `raise` EmptyCell is raised.
    Raises ValueError if the name of an op or a strategy does not exist.
    Raises TypeError if a strategy is neither a strategy nor a name.
    """

    def __init__(
        self,
        default: Strategy | str | None,
        by_op: Mapping[str, Strategy | str | None] | None = None,
        empty: str = "leave",
    ) -> None:
        require_word("empty", empty, ("leave", "raise"))
        by_op = by_op or {}
        for name in by_op:
            if name not in REMEDIES:
                OPS.find(name)
        clips = dict.fromkeys(CLIPS, by_op["clamp"]) if "clamp" in by_op else {}
        self.default = _make(default)
        self.by_op = {name: _make(strategy) for name, strategy in {**clips, **by_op}.items()}
        self.empty = empty

    def require_strategy(self, *names: str) -> None:
        """Raises NotReplaced if none of the ops of these names has a strategy."""
        if all(self.by_op.get(name, self.default) is None for name in names):
            raise NotReplaced("no strategy chosen")

    def strategy(self, op: Op) -> Strategy:
        """The op's strategy.

        Raises NotReplaced if the op has no strategy or the pair is not applicable.
        """
        name = name_of(op)
        strategy = self.by_op.get(name, self.default)
        if strategy is None:
            raise NotReplaced("no strategy chosen")
        if name not in self.by_op and op.continuous and isinstance(strategy, StraightThrough):
            return Subgradient()
        try:
            if name in REMEDIES and not isinstance(strategy, StraightThrough):
                raise EmptyCell(f"only straight-through applies to a draw; write {REMEDIES[name]}, which is replaced")
            strategy.check(op)
        except EmptyCell as error:
            if self.empty == "raise":
                raise
            if op.continuous:
                return Subgradient()
            raise NotReplaced(str(error)) from error
        return strategy


def _make(strategy: Strategy | str | None) -> Strategy | None:
    return None if strategy is None else STRATEGIES.make(strategy)


def name_of(op: Op) -> str:
    """The name of the op's file."""
    return type(op).__module__.rpartition(".")[2]
