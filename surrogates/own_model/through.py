"""`through`: puts the hard torch calls of any model or function under a strategy."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from surrogates.core import Strategy
from surrogates.own_model import drawing, elementwise, handling, marking
from surrogates.own_model.calls import CALLS, CONVERSIONS, DRAWN, MARKED, NEUTRAL, USES, Call, has_hard_word
from surrogates.own_model.choice import NotReplaced, StrategyByOp
from surrogates.own_model.detached import DETACHING, SUMS
from surrogates.own_model.estimators import detach, detach_marked, report_no_grad, report_unrecorded
from surrogates.own_model.marks import Mark
from surrogates.own_model.replacements import Replacements, source
from surrogates.own_model.replacer import Replacer
from surrogates.own_model.tracking import graphs, is_recorded, tensors
from surrogates.own_model.unsupported import REASONS_OF_USES, UNSUPPORTED, without_op
from surrogates.schedules import require_temperature

Handle = Callable[..., Any]
KNOWN = {*CALLS, *MARKED, *DRAWN, *CONVERSIONS, *UNSUPPORTED, *DETACHING}


class _Entered(threading.local):
    """The replacers of the blocks that this thread is in, innermost last, and the entries of their marks."""

    def __init__(self) -> None:
        self.replacers: list[Replacer] = []
        self.marked: list[Mapping[Any, Mark]] = []


_entered = _Entered()


def through(
    strategy: Strategy | str | None,
    /,
    *,
    T: float | Tensor | None = None,
    seed: int = 0,
    step: int = 0,
    empty: str = "leave",
    **by_op: Strategy | str | None,
) -> Through:
    """A block that replaces the hard torch calls of any model or function by ops under a strategy.

    `with through(StraightThrough(), max=Smooth()) as report: loss = model(x)`: `strategy` is for every op except those
    named, by the name of the op's file. An op whose strategy is None is not replaced. Straight-through is for the ops
    whose derivative is 0 almost everywhere; clips, relu, maxima and sorted values keep their derivative (`Subgradient`)
    unless they are named. Under hard-valued strategies no bit of the forward pass changes. A call is unchanged if none
    of its inputs requires a gradient, so a `no_grad` block runs the hard model. Results of bools or integers are
    replaced where they are used. Draws by `bernoulli` and `multinomial` have the derivative of their expectation, under
    straight-through only. `print(report)` lists the hard calls that were replaced and those that were not.

    A sum with detached parts whose value is that of a replaced call, such as x + (round(x) - x).detach(), is computed
    with nothing detached, so it has the derivative of its value. Elsewhere a call whose derivative is thrown away by
    `detach`, `data` or `no_grad` counts as not replaced until a backward pass reaches it. The report is complete when
    the block ends.

    `T` is the temperature of all strategies that use one, by default each strategy's own. Noise is keyed by (seed,
    step, number of the noisy call). A pair of op and strategy that does not exist raises EmptyCell (`empty="raise"`),
    or is not replaced (`empty="leave"`); clips, relu, maxima and sorted values then get `Subgradient`.
    The block acts in the thread that enters it. Of nested blocks only the innermost replaces calls. Layers of this
    library keep their own strategies.
    Raises RuntimeError if torch.compile traces the block.
    """
    if torch.compiler.is_compiling():
        raise RuntimeError("through cannot be compiled; enter the block around the compiled function")
    if T is not None and not isinstance(T, Tensor):
        require_temperature("T", T)
    return Through(Replacer(StrategyByOp(strategy, by_op, empty), T, seed, step))


class Through(TorchFunctionMode):
    """The block of `through`; entering it returns its report, which continues to count if it is entered again."""

    def __init__(self, replacer: Replacer) -> None:
        super().__init__()
        self.replacer = replacer

    def __enter__(self) -> Replacements:
        super().__enter__()  # type: ignore[no-untyped-call]
        _entered.replacers.append(self.replacer)
        _entered.marked.append(self.replacer.marks.entries)
        return self.replacer.report

    def __exit__(self, *error: Any) -> None:
        _entered.replacers.pop()
        _entered.marked.pop()
        self.replacer.detached.keep([])
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if torch.compiler.is_compiling():
            raise RuntimeError("through cannot be compiled; call the uncompiled model, or use surrogates.convert")
        kwargs = kwargs or {}
        known = (
            function in KNOWN
            or (function in SUMS and self.replacer.detached.twins)
            or any(_entered.marked)
            or (not torch.is_grad_enabled() and graphs(args))
        )
        if known and _entered.replacers[-1] is self.replacer and not any(map(_foreign, types)):
            handle = _outside_compiler() if "torch._dynamo" in sys.modules else _handle
            return handle(self.replacer, function, args, kwargs)
        return function(*args, **kwargs)


@cache
def _outside_compiler() -> Callable[..., Any]:
    """`_handle`, excluded from compilation; called only if the compiler, which is slow to import, is imported."""
    handle: Callable[..., Any] = torch.compiler.disable(_handle)  # type: ignore[no-untyped-call]
    return handle


def _handle(replacer: Replacer, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = list(tensors((*args, *kwargs.values())))
    marks = {id(x): mark for x in given if (mark := _mark(x)) and (function in USES or not mark.detached)}
    if function in SUMS and not marks and not kwargs and torch.is_grad_enabled():
        return replacer.detached.sum(function, args)
    if function not in KNOWN and not marks and torch.is_grad_enabled():
        return function(*args, **kwargs)
    where = source() if marks or any(x.is_floating_point() for x in given) else None
    if where is None:  # no floating tensor, or a call of this library
        return function(*args, **kwargs)
    hard, marked, drawn = CALLS.get(function), MARKED.get(function), DRAWN.get(function)
    if hard and hard.meaning is elementwise.div and not kwargs.get("rounding_mode"):
        hard = None
    if hard and not has_hard_word(hard, (*args, *kwargs.values())):
        hard = None
    if any(map(is_recorded, given)):
        if call := hard or marked or drawn:
            _report_use(replacer, marks, call.name, "not supported", where)
            handle = handling.replace if hard else marking.mark if marked else drawing.draw
            return _replace_or_report(replacer, call, handle, function, args, kwargs, where)
        if function in CONVERSIONS and is_recorded(given[0]):
            return marking.mark_cast(replacer, CONVERSIONS[function], function, args, kwargs, where)
        if function in DETACHING:
            return detach(replacer, function, given[0], where)
    elif (hard or marked) and not marks:
        report_unrecorded(replacer, function, graphs(given), where)
    if marks and function in DETACHING:
        return detach_marked(replacer, function, given[0], next(iter(marks.values())), where)
    if listed := without_op(function, args, kwargs):
        replacer.not_replaced(listed.name, listed.meaning, where)
    if marks and function in USES:
        return _use_or_report(replacer, USES[function], function, args, kwargs, marks, where)
    name = getattr(function, "__name__", repr(function))
    if marks and function not in NEUTRAL and name != "__get__":
        _report_use(replacer, marks, name, REASONS_OF_USES.get(function, "not supported"), where)
    result = function(*args, **kwargs)
    if not torch.is_grad_enabled() and any(x.is_floating_point() for x in tensors(result)):
        report_no_grad(graphs(given), where)
    return result


def _replace_or_report(
    replacer: Replacer, call: Call, handle: Handle, function: Any, args: Any, kwargs: Any, where: str
) -> Any:
    try:
        return handle(replacer, call, function, args, kwargs, where)
    except NotReplaced as reason:
        replacer.not_replaced(call.name, reason, where)
        result = function(*args, **kwargs)
        if isinstance(result, tuple):
            marking.mark_positions(replacer, call, args, kwargs, result, where)
        return result


def _use_or_report(
    replacer: Replacer, call: Call, function: Any, args: Any, kwargs: Any, marks: dict[int, Mark], where: str
) -> Any:
    try:
        return handling.use(replacer, call, function, args, kwargs, marks, where)
    except NotReplaced as reason:
        _report_use(replacer, marks, call.name, reason, where)
        return function(*args, **kwargs)


def _report_use(replacer: Replacer, marks: dict[int, Mark], user: str, reason: object, where: str) -> None:
    for mark in marks.values():
        replacer.not_replaced(mark.call, f"its result is used by {user}: {reason}", where)


def _mark(x: Tensor) -> Mark | None:
    """The mark of the innermost block that has one for this tensor, if a derivative by its sources is recorded."""
    found = next((mark for replacer in reversed(_entered.replacers) if (mark := replacer.marks.get(x))), None)
    return found if found and found.is_recorded else None


def _foreign(kind: Any) -> bool:
    """Whether a tensor class overrides torch's functions."""
    return kind is not Tensor and kind.__torch_function__ is not nn.Parameter.__torch_function__
