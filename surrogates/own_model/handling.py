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


def replace(replacer: Replacer, call: Call, function: Any, args: Any, kwargs: Any, where: str) -> Any:
    """The call with its ops under their strategies.

    Raises NotReplaced if an op has no strategy.
    """
    ops = OpsOfCall(replacer)
    arguments = _by_name(call, args, kwargs)
    inplace = bool(arguments.pop("inplace", call.inplace))
    input = arguments.pop("input")
    value = call.meaning(ops, input.clone() if inplace else input, **arguments)
    ops.report(call.name, where)
    rest = {name: value for name, value in kwargs.items() if name != "input"}
    with torch.no_grad(), without_forward_mode():
        plain = function(input.clone() if inplace else input, *args[1:], **rest)
    hard = plain[0] if isinstance(plain, tuple) else plain
    result = value.to(hard.dtype) if ops.soft else graft(hard, value)
    if isinstance(plain, tuple):
        _mark_positions(replacer, call, {"input": input, **arguments}, plain[1], where)
        return type(plain)((result, *plain[1:]))
    return input.copy_(result) if inplace else result


def mark(replacer: Replacer, call: Call, function: Any, args: Any, kwargs: Any, where: str) -> Any:
    """The call itself, with its bool or integer result marked.

    Raises NotReplaced if the call writes in place.
    """
    arguments = _by_name(call, args, kwargs)
    if call.inplace:
        raise NotReplaced("in-place comparisons are not supported")
    result = function(*args, **kwargs)
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
    """A call on marked tensors: its result with the derivative of the numbers, or marked in turn."""
    inplace = call.inplace and id(args[0]) not in marks
    result = function(*((args[0].clone(), *args[1:]) if inplace else args), **kwargs)
    applied = Use(function, args, kwargs, marks, result, call.inplace)
    if result.is_floating_point():
        return _use_result(replacer, call, applied, inplace, where)

    def numbers() -> Numbers:
        return Numbers(call.meaning(applied), applied.soft)

    first = next(iter(marks.values()))
    sources = tuple(source for mark in marks.values() for source in mark.sources)
    index = first.index and call.name != "one_hot"
    replacer.marks.put(result, Mark(first.call, first.where, sources, numbers, index))
    return result


def _use_result(replacer: Replacer, call: Call, applied: Use, inplace: bool, where: str) -> Tensor:
    try:
        value = call.meaning(applied)
        value = value.to(applied.result.dtype) if applied.soft else graft(applied.result.detach(), value)
    except NotReplaced as reason:
        for mark in applied.marks.values():
            replacer.not_replaced(mark.call, f"its result is used by {call.name}: {reason}", where)
        value = applied.result
    written: Tensor = applied.args[0].copy_(value) if inplace else value
    return written


def _by_name(call: Call, args: Any, kwargs: Any) -> dict[str, Any]:
    """The call's arguments by the names that its meaning gives them.

    Raises NotReplaced if its meaning has no such arguments.
    """
    try:
        bound = signature(call.meaning).bind(None, *args, **kwargs)
    except TypeError as error:
        raise NotReplaced(f"arguments not supported: {error}") from error
    arguments = dict(bound.arguments)
    del arguments["apply"]
    return arguments
