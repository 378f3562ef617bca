"""Replaces a hard call whose inputs require a gradient, and a call that uses the result of a marked call."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from surrogates.core import graft
from surrogates.own_model import reading
from surrogates.own_model.calls import Call
from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.marks import Mark, Numbers
from surrogates.own_model.replacer import OpsOfCall, Replacer
from surrogates.own_model.tracking import tensors
from surrogates.own_model.use import Use
from surrogates.torch_private import without_forward_mode

signature = cache(inspect.signature)
NUMPY_NAMES = {"x": "input", "x1": "input", "a": "input", "x2": "other", "axis": "dim", "keepdims": "keepdim"}


def replace(replacer: Replacer, call: Call, function: Any, args: Any, kwargs: Any, where: str) -> Any:
    """The call with its ops under their strategies.

    Raises NotReplaced if an op has no strategy, the operands have no meaning in ops, or torch refuses the call.
    """
    ops = OpsOfCall(replacer)
    arguments = _by_name(call, args, kwargs)
    inplace = arguments.pop("inplace", call.inplace)
    if not isinstance(inplace, int):
        raise NotReplaced(f"inplace must be True or False, got {inplace}")
    input = arguments.pop("input")
    with torch.no_grad(), without_forward_mode():
        plain = _on_copy(function, args, kwargs, input if inplace else None)
    if plain is NotImplemented:
        raise NotReplaced("an operand that torch does not know")
    value = call.meaning(ops, input.clone() if inplace else input, **arguments)
    hard = plain[0] if isinstance(plain, tuple) else plain
    result = value.to(hard.dtype) if ops.soft else graft(hard, value)
    if inplace:
        result = _write(input, result)
    ops.report(call.name, where, value)
    if isinstance(plain, tuple):
        _mark_positions(replacer, call, {"input": input, **arguments}, plain[1], where)
        return type(plain)((result, *plain[1:]))
    return result


def mark(replacer: Replacer, call: Call, function: Any, args: Any, kwargs: Any, where: str) -> Any:
    """The call itself, with its bool or integer result marked; a method that declines its operand returns no tensor.

    Raises NotReplaced if the call writes in place.
    """
    arguments = _by_name(call, args, kwargs)
    if call.inplace:
        raise NotReplaced("in-place comparisons are not supported")
    result = function(*args, **kwargs)
    if not isinstance(result, Tensor):
        return result
    sources = tuple(tensors((*args, *kwargs.values())))
    replacer.mark(result, call.name, where, sources, lambda t: call.meaning(t, **arguments), result.dtype != torch.bool)
    return result


def _mark_positions(replacer: Replacer, call: Call, arguments: dict[str, Any], positions: Tensor, where: str) -> None:
    """Marks the indices that a call returns with its values."""
    read = {"max": reading.argmax, "min": reading.argmin}.get(call.name, reading.positions)
    replacer.mark(positions, call.name, where, (arguments["input"],), lambda t: read(t, **arguments), True)


def use(
    replacer: Replacer, call: Call, function: Any, args: Any, kwargs: Any, marks: Mapping[int, Mark], where: str
) -> Any:
    """A call on marked tensors: its result with the derivative of the numbers, or marked in turn.

    Raises NotReplaced if the numbers cannot take the place of the marked tensors, or torch refuses the call.
    """
    if kwargs.get("out") is not None or (call.inplace and not args):
        raise NotReplaced("out= and input= in place are not supported")
    target = args[0] if call.inplace and id(args[0]) not in marks and _is_floating(args[0]) else None
    result = _on_copy(function, args, kwargs, target)
    if not isinstance(result, Tensor):
        raise NotReplaced("its result is no tensor")
    applied = Use(function, args, kwargs, marks, result, call.inplace)
    if result.is_floating_point():
        value = call.meaning(applied)
        value = value.to(result.dtype) if applied.soft else graft(result.detach(), value)
        return value if target is None else _write(target, value)

    def numbers() -> Numbers:
        return Numbers(call.meaning(applied), applied.soft)

    first = next(iter(marks.values()))
    sources = tuple(source for mark in marks.values() for source in mark.sources)
    replacer.marks.put(result, Mark(first.call, first.where, sources, numbers, applied.keeps_index(call.name)))
    return result


def _is_floating(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _on_copy(function: Any, args: Any, kwargs: Any, written: Any) -> Any:
    """torch's own result, with a copy of the tensor that the call would write into.

    Raises NotReplaced if torch refuses the call. Made again as it was written, it then raises torch's own error.
    """

    def copied(x: Any) -> Any:
        return x.clone() if x is written and isinstance(x, Tensor) else x

    try:
        return function(*map(copied, args), **{name: copied(x) for name, x in kwargs.items()})
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


def _by_name(call: Call, args: Any, kwargs: Any) -> dict[str, Any]:
    """The call's arguments by the names that its meaning gives them.

    Raises NotReplaced if its meaning has no such arguments.
    """
    named = {NUMPY_NAMES.get(name, name): value for name, value in kwargs.items()}
    try:
        bound = signature(call.meaning).bind(None, *args, **named)
    except TypeError as error:
        raise NotReplaced(f"arguments not supported: {error}") from error
    arguments = dict(bound.arguments)
    del arguments["apply"]
    return arguments
