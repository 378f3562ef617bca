"""`through`: the hard torch calls of a model or function that was not written for this library, under a strategy."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from surrogates.core import Strategy
from surrogates.own_model import elementwise, handling
from surrogates.own_model.block import Block
from surrogates.own_model.calls import CALLS, LEFT, MARKED, NEUTRAL, USES, Call
from surrogates.own_model.choice import Choice, Left
from surrogates.own_model.marks import Mark
from surrogates.own_model.report import Report, source
from surrogates.own_model.tracking import recorded, tensors
from surrogates.schedules import require_temperature

Handle = Callable[..., Any]
_thread = threading.local()


def through(
    strategy: Strategy | None,
    /,
    *,
    T: float | Tensor | None = None,
    seed: int = 0,
    step: int = 0,
    empty: str = "leave",
    **by_op: Strategy | None,
) -> Through:
    """A block in which the hard torch calls of any model or function are taken with a strategy.

    `with through(StraightThrough(), max=Smooth()) as report: loss = model(x)`: `strategy` for every op except those
    named, by the name of the op's file; None leaves an op alone. Hard-valued strategies leave every value of the
    forward pass as it is, bit for bit. A call none of whose inputs wants a derivative is left as it is, so that in a
    `no_grad` block the model is the hard one. `print(report)` says what was taken and what was met and left alone.

    `T` is the temperature of all strategies that use one, their own by default; noise is keyed by (seed, step, number
    of the noisy call). `empty`: a pair of op and strategy that does not exist is left alone and reported (`leave`), or
    raises EmptyCell (`raise`).
    It holds for the thread that enters it; of nested blocks the innermost counts alone. Layers of this library keep
    their own strategies.
    """
    if torch.compiler.is_compiling():
        raise RuntimeError("through cannot be compiled; enter the block around the compiled function")
    if T is not None and not isinstance(T, Tensor):
        require_temperature("T", T)
    return Through(Block(Choice(strategy, by_op, empty), T, seed, step))


class Through(TorchFunctionMode):
    """The block of `through`; entering it gives its report. Entered again it goes on counting."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.block = block

    def __enter__(self) -> Report:
        super().__enter__()  # type: ignore[no-untyped-call]
        _blocks().append(self.block)
        return self.block.report

    def __exit__(self, *error: Any) -> None:
        _blocks().pop()
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if torch.compiler.is_compiling():
            raise RuntimeError("through cannot be compiled; call the model as it is, or use surrogates.convert")
        kwargs = kwargs or {}
        known = function in CALLS or function in MARKED or function in LEFT or any(block.marks for block in _blocks())
        if _blocks()[-1] is self.block and known and not any(map(_foreign, types)):
            met = _uncompiled() if "torch._dynamo" in sys.modules else _met
            return met(self.block, function, args, kwargs)
        return function(*args, **kwargs)


@cache
def _uncompiled() -> Callable[..., Any]:
    """`_met`, kept out of the compiler's hands; importing that takes seconds, so only if somebody else has."""
    met: Callable[..., Any] = torch.compiler.disable(_met)  # type: ignore[no-untyped-call]
    return met


def _met(block: Block, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = list(tensors((*args, *kwargs.values())))
    marks = {id(x): mark for x in given if (mark := _mark(x))}
    where = source() if marks or any(x.is_floating_point() for x in given) else None
    if where is None:  # nothing that could have a derivative, or one of this library's own calls
        return function(*args, **kwargs)
    taken, marked = CALLS.get(function), MARKED.get(function)
    if taken and taken.meaning is elementwise.div and not kwargs.get("rounding_mode"):
        taken = None
    if any(map(recorded, given)):
        if call := taken or marked:
            return _hard(block, call, handling.take if taken else handling.mark, function, args, kwargs, where)
        if function in LEFT:
            block.left(LEFT[function].name, "not supported", where)
    elif taken and not marks:
        block.left(taken.name, "no derivative is asked for", where)
    if marks and function in USES:
        return handling.use(block, USES[function], function, args, kwargs, marks, where)
    if marks and function not in NEUTRAL and function.__name__ != "__get__":
        for mark in marks.values():
            block.left(mark.call, f"its result used by {function.__name__}", where)
    return function(*args, **kwargs)


def _hard(block: Block, call: Call, handle: Handle, function: Any, args: Any, kwargs: Any, where: str) -> Any:
    try:
        return handle(block, call, function, args, kwargs, where)
    except Left as reason:
        block.left(call.name, reason, where)
        return function(*args, **kwargs)


def _mark(x: Tensor) -> Mark | None:
    """The mark of the innermost block that has one for this tensor, if a derivative is asked for."""
    found = next((mark for block in reversed(_blocks()) if (mark := block.marks.get(x))), None)
    return found if found and found.recorded else None


def _foreign(kind: Any) -> bool:
    """Whether a tensor class has a say of its own in what torch's functions do with it."""
    return kind is not Tensor and kind.__torch_function__ is not nn.Parameter.__torch_function__


def _blocks() -> list[Block]:
    """The blocks that this thread is in, innermost last."""
    if not hasattr(_thread, "blocks"):
        _thread.blocks = []
    blocks: list[Block] = _thread.blocks
    return blocks
