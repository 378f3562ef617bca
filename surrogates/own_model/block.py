"""What the handling of calls shares: the strategies, the noise, the marks and the report of one block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from surrogates.core import Op, graft
from surrogates.noise import uniforms
from surrogates.own_model.choice import Choice
from surrogates.own_model.marks import Mark, Marks, Numbers
from surrogates.own_model.report import Report, Row, brief


@dataclass
class Block:
    """Choices and state of a block; noise is keyed by (seed, step, how many noisy ops came before)."""

    choice: Choice
    T: float | Tensor | None = None
    seed: int = 0
    step: int = 0
    draws: int = 0
    report: Report = field(default_factory=Report)
    marks: Marks = field(default_factory=Marks)

    def left(self, call: str, reason: object, where: str) -> None:
        """Reports a call that is left as it is."""
        self.report.left[Row(call, str(reason), where)] += 1

    def mark(self, result: Tensor, call: str, where: str, sources: tuple[Tensor, ...], read: Read, index: bool) -> None:
        """Marks a result whose numbers `read` makes of ops; taken, and reported, when they are first asked for."""
        kept = result.clone()  # not the key itself, which may be changed, and which the mark would keep alive

        def numbers() -> Numbers:
            take = Take(self)
            value = read(take)
            take.report(call, where)
            if take.soft:
                return Numbers(value, True)
            classes = torch.arange(value.shape[-1], device=value.device) if index else None
            hard = kept if classes is None else kept.unsqueeze(-1) == classes
            return Numbers(graft(hard.to(value.dtype), value), False)

        self.marks.put(result, Mark(call, where, sources, numbers, index))


class Take:
    """Takes the ops of one call with their strategies; remembers which, and whether one changed the value."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.soft = False
        self.fates: list[str] = []

    def __call__(self, op: Op, *x: Tensor) -> Tensor:
        """The op on x, brought to one dtype and shape. Raises Left if it is to be left."""
        block = self.block
        strategy = block.choice.strategy(op)
        if len(x) > 1:
            dtype = torch.result_type(*x)
            x = tuple(torch.broadcast_tensors(*(tensor.to(dtype) for tensor in x)))  # type: ignore[no-untyped-call]
        noise = None
        shape = strategy.noise_shape(op, *x)
        if shape is not None:
            block.draws += 1
            noise = uniforms(x[0], (block.seed, block.step, block.draws), shape)
        self.soft |= strategy.soft_forward or strategy.noisy(op)
        self.fates.append(f"{brief(op)} by {brief(strategy)}")
        return strategy(op, *x, T=block.T, noise=noise)

    def report(self, call: str, where: str) -> None:
        """Reports the call as taken."""
        self.block.report.taken[Row(call, "; ".join(dict.fromkeys(self.fates)), where)] += 1


Read = Callable[[Take], Tensor]
