"""The state that the replaced calls of a block share: strategies, noise, marks and report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from surrogates.core import Op, graft
from surrogates.noise import uniforms
from surrogates.own_model.choice import NotReplaced, StrategyByOp
from surrogates.own_model.detached import Detached
from surrogates.own_model.effect import Effect, first_of
from surrogates.own_model.marks import Mark, Marks, Numbers, Order
from surrogates.own_model.replacements import Occurrence, Replacements
from surrogates.own_model.tracking import graphs


@dataclass
class Replacer:
    """Choices and state of a block; noise is keyed by (seed, step, number of noisy ops before)."""

    choice: StrategyByOp
    T: float | Tensor | None = None
    seed: int = 0
    step: int = 0
    draws: int = 0
    report: Replacements = field(default_factory=Replacements)
    marks: Marks = field(default_factory=Marks)
    detached: Detached = field(default_factory=Detached)
    soft: bool = False  # whether a call got a soft value
    hard_functions: dict[str, str] = field(default_factory=dict)  # custom Functions with a hard call, by node

    def not_replaced(self, call: str, reason: object, where: str) -> None:
        """Reports a hard call that is not replaced."""
        self.report.not_replaced[Occurrence(call, str(reason), where)] += 1

    def mark(self, result: Tensor, call: str, where: str, sources: tuple[Tensor, ...], reading: Reading) -> None:
        """Marks a result; at the first access its numbers are computed by ops, and the call is reported."""
        kept = result.clone()  # the result may be changed in place; a mark that held it would keep it alive

        def numbers() -> Numbers:
            value, soft = self.read(call, where, reading.read)
            if soft:
                return Numbers(value, True)
            classes = torch.arange(value.shape[-1], device=value.device) if reading.one_hot else None
            hard = kept if classes is None else kept.unsqueeze(-1) == classes
            return Numbers(graft(hard.to(value.dtype), value), False)

        ranks = reading.ranks
        order = None if ranks is None else Order(reading.dim, lambda: self.read(call, where, ranks))
        self.marks.put(result, Mark(call, where, sources, numbers, reading.one_hot, order))

    def read(self, call: str, where: str, read: Read) -> Numbers:
        """The numbers that a call stands for, by ops; the call is reported."""
        ops = OpsOfCall(self)
        value = read(ops)
        ops.report(call, where, value)
        return Numbers(value, ops.soft)


class OpsOfCall:
    """Applies the ops of one call under their strategies; records them, and whether one changed the value."""

    def __init__(self, replacer: Replacer) -> None:
        self.replacer = replacer
        self.soft = False
        self.fates: list[str] = []

    def __call__(self, op: Op, *x: Any) -> Tensor:
        """The op on x, numbers or tensors, after a cast to one dtype and shape.

        Raises NotReplaced if the op has no strategy, or x is not floating.
        """
        replacer = self.replacer
        strategy = replacer.choice.strategy(op)
        x = alike(*x)
        if not x[0].is_floating_point():
            raise NotReplaced(f"{type(op).__name__} needs floating operands, got {x[0].dtype}")
        if strategy.soft_forward or strategy.noisy(op):
            self._require_no_hard_codes(x)
            self.soft = replacer.soft = True
        noise = None
        shape = strategy.noise_shape(op, *x)
        if shape is not None:
            replacer.draws += 1
            noise = uniforms(x[0], (replacer.seed, replacer.step, replacer.draws), shape)
        self.fates.append(f"{op} by {strategy}")
        return strategy(op, *x, T=replacer.T, noise=noise)

    def _require_no_hard_codes(self, x: tuple[Tensor, ...]) -> None:
        """Raises NotReplaced after a custom Function with a hard call: half a quantizer would be soft."""
        for node in graphs(x) if self.replacer.hard_functions else ():
            if found := first_of(node, self.replacer.hard_functions):
                raise NotReplaced(f"it acts on the result of {found}, which stays hard")

    def report(self, call: str, where: str, *values: Tensor) -> None:
        """Reports the call as replaced, as long as the derivatives of `values` are not thrown away."""
        row, report = Occurrence(call, "; ".join(dict.fromkeys(self.fates)), where), self.replacer.report
        report.replaced[row] += 1
        effect = Effect(report, row, self.soft)
        for value in values:
            effect.follow(value)


Read = Callable[[OpsOfCall], Tensor]


class Reading(NamedTuple):
    """How ops read a result: as numbers, or an index as `one_hot` rows.

    If the index orders all entries along `dim`, `ranks` reads their ranks.
    """

    read: Read
    one_hot: bool = False
    dim: int = 0
    ranks: Read | None = None


def alike(*x: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one dtype, by torch's rules of promotion, and of one shape."""
    device = next(a.device for a in x if isinstance(a, Tensor))
    if len(x) == 1:
        return x
    dtype = torch.result_type(*x)
    given = (torch.as_tensor(a, dtype=dtype, device=device) for a in x)
    return tuple(torch.broadcast_tensors(*given))  # type: ignore[no-untyped-call]
