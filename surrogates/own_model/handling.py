"""Replaces a hard call whose inputs require a gradient, and a call that uses the result of a marked call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from surrogates.core import graft
from surrogates.own_model.arguments import by_name
from surrogates.own_model.calls import Call
from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.detached import SUMS
from surrogates.own_model.marking import mark_positions
from surrogates.own_model.marks import Mark, Numbers
from surrogates.own_model.replacer import OpsOfCall, Replacer
from surrogates.own_model.use import Use
from surrogates.own_model.uses import KEEP_INDEX
from surrogates.torch_private import without_forward_mode


def replace(replacer: Replacer, call: Call, function: Any, args: Any, kwargs: Any, where: str) -> Any:
    """The call with its ops under their strategies.

    Raises NotReplaced if an op has no strategy, the operands have no meaning in ops, or torch refuses the call.
    """
    replacer.choice.require_strategy(*call.ops)
    ops = OpsOfCall(replacer)
    arguments = by_name(call, args, kwargs)
    inplace = arguments.pop("inplace", call.inplace)
    if not isinstance(inplace, int):
        raise NotReplaced(f"inplace must be True or False, got {inplace}")
    input = arguments.pop("input")
    with torch.no_grad(), without_forward_mode():
        plain = _on_copy(function, args, kwargs, input if inplace else None)
    if plain is NotImplemented:
        raise NotReplaced("an operand that torch does not know")
    value = call.meaning(ops, input.clone() if inplace else input, **arguments)
    values = value if isinstance(value, tuple) else (value,)
    hard = plain if isinstance(plain, tuple) else (plain,)
    results = [v.to(h.dtype) if ops.soft else graft(h, v) for v, h in zip(values, hard, strict=False)]
    if inplace:
        results = [_write(input, results[0])]
    ops.report(call.name, where, *values)
    if not isinstance(plain, tuple):
        return results[0]
    mark_positions(replacer, call, args, kwargs, plain, where)
    return type(plain)((*results, *plain[len(results) :]))


def use(
    replacer: Replacer, call: Call, function: Any, args: Any, kwargs: Any, marks: Mapping[int, Mark], where: str
) -> Any:
    """A call on marked tensors: its result with the derivative of the numbers, or marked in turn.

    Raises NotReplaced if the numbers cannot take the place of the marked tensors, or torch refuses the call.
    """
    if kwargs.get("out") is not None or (call.inplace and not args):
        raise NotReplaced("out= and input= in place are not supported")
    target = args[0] if call.inplace and id(args[0]) not in marks and _is_floating(args[0]) else None
    before = _before(call, args, marks) if target is None else args
    result = _on_copy(function, args, kwargs, target)
    if not isinstance(result, Tensor):
        raise NotReplaced("its result is no tensor")
    kept = result if result.is_floating_point() else result.clone()  # a mark that held the result would keep it alive
    applied = Use(function, before, kwargs, marks, kept, call.inplace)
    if result.is_floating_point():
        if function in SUMS and len(args) <= 2 and not kwargs and torch.is_grad_enabled():
            return replacer.detached.sum(function, tuple(_lift(applied, x) for x in args))
        value = call.meaning(applied)
        value = value.to(result.dtype) if applied.soft else graft(result.detach(), value)
        return value if target is None else _write(target, value)

    changed = applied.mark(args[0] if args else kwargs.get("input"))
    index = call.meaning in KEEP_INDEX and changed is not None and changed.index

    def numbers() -> Numbers:
        value = call.meaning(applied)
        return Numbers(value if applied.soft or index else graft(kept.to(value.dtype), value), applied.soft)

    first = next(iter(marks.values()))
    sources = tuple(source for mark in marks.values() for source in mark.sources)
    replacer.marks.put(result, Mark(first.call, first.where, sources, numbers, index))
    return result


def _lift(use: Use, argument: Any) -> Any:
    """The numbers of a marked tensor in the precision of the result; any other argument itself."""
    return argument if use.mark(argument) is None else use.number(argument, use.result)


def _before(call: Call, args: Any, marks: Mapping[int, Mark]) -> Any:
    """The arguments, with a copy of a tensor of integers or bools that the call overwrites."""
    overwritten = call.inplace and isinstance(args[0], Tensor) and id(args[0]) not in marks
    return (args[0].clone(), *args[1:]) if overwritten else args


def _is_floating(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _on_copy(function: Any, args: Any, kwargs: Any, written: Any) -> Any:
    """torch's own result, with a copy of the tensor that the call would write into.

    Raises NotReplaced if torch refuses the call. The plain call that follows then raises torch's own error.
    """

    def copy_of(x: Any) -> Any:
        return x.clone() if x is written and isinstance(x, Tensor) else x

    try:
        return function(*map(copy_of, args), **{name: copy_of(x) for name, x in kwargs.items()})
    except Exception as error:
        raise NotReplaced(f"torch raises {type(error).__name__}") from error


def _write(target: Tensor, value: Tensor) -> Tensor:
    """The target with the value, its derivative included.

    Raises NotReplaced if torch refuses to write into it.
    """
    try:
        return target.copy_(value)
    except RuntimeError as error:
        raise NotReplaced(f"torch raises {type(error).__name__}") from error
