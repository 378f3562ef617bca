"""What happens to a hard call whose inputs want a derivative, and to a call on what came of one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from surrogates.core import graft
from surrogates.own_model import reading
from surrogates.own_model.block import Block, Take
from surrogates.own_model.calls import Call
from surrogates.own_model.choice import Left
from surrogates.own_model.marks import Mark, Numbers
from surrogates.own_model.tracking import tensors
from surrogates.own_model.use import Use
from surrogates.torch_private import without_forward_mode

signature = cache(inspect.signature)


def take(block: Block, call: Call, function: Any, args: Any, kwargs: Any, where: str) -> Any:
    """The call with its ops under their strategies. Raises Left if one has none."""
    taker = Take(block)
    arguments = _by_name(call, args, kwargs)
    inplace = bool(arguments.pop("inplace", call.inplace))
    input = arguments.pop("input")
    value = call.meaning(taker, input.clone() if inplace else input, **arguments)
    taker.report(call.name, where)
    rest = {name: value for name, value in kwargs.items() if name != "input"}
    with torch.no_grad(), without_forward_mode():
        plain = function(input.clone() if inplace else input, *args[1:], **rest)
    hard = plain[0] if isinstance(plain, tuple) else plain
    result = value.to(hard.dtype) if taker.soft else graft(hard, value)
    if isinstance(plain, tuple):
        _mark_positions(block, call, {"input": input, **arguments}, plain[1], where)
        return type(plain)((result, *plain[1:]))
    return input.copy_(result) if inplace else result


def mark(block: Block, call: Call, function: Any, args: Any, kwargs: Any, where: str) -> Any:
    """The call itself, its bool or integer result marked. Raises Left for what no op reads."""
    arguments = _by_name(call, args, kwargs)
    if call.inplace:
        raise Left("written in place")
    result = function(*args, **kwargs)
    sources = tuple(tensors((*args, *kwargs.values())))
    block.mark(result, call.name, where, sources, lambda t: call.meaning(t, **arguments), result.dtype != torch.bool)
    return result


def _mark_positions(block: Block, call: Call, arguments: dict[str, Any], positions: Tensor, where: str) -> None:
    """Marks the indices that come with values along a dim."""
    read = {"max": reading.argmax, "min": reading.argmin}.get(call.name, reading.positions)
    block.mark(positions, call.name, where, (arguments["input"],), lambda t: read(t, **arguments), True)


def use(block: Block, call: Call, function: Any, args: Any, kwargs: Any, marks: Mapping[int, Mark], where: str) -> Any:
    """A call on marked tensors: its result with the derivative of the numbers, or marked in its turn."""
    inplace = call.inplace and id(args[0]) not in marks
    result = function(*((args[0].clone(), *args[1:]) if inplace else args), **kwargs)
    applied = Use(function, args, kwargs, marks, result, call.inplace)
    if result.is_floating_point():
        return _used(block, call, applied, inplace, where)

    def numbers() -> Numbers:
        return Numbers(call.meaning(applied), applied.soft)

    first = next(iter(marks.values()))
    sources = tuple(source for mark in marks.values() for source in mark.sources)
    index = first.index and call.name != "one_hot"
    block.marks.put(result, Mark(first.call, first.where, sources, numbers, index))
    return result


def _used(block: Block, call: Call, applied: Use, inplace: bool, where: str) -> Tensor:
    try:
        value = call.meaning(applied)
        value = value.to(applied.result.dtype) if applied.soft else graft(applied.result.detach(), value)
    except Left as reason:
        for mark in applied.marks.values():
            block.left(mark.call, f"its result used by {call.name}: {reason}", where)
        value = applied.result
    written: Tensor = applied.args[0].copy_(value) if inplace else value
    return written


def _by_name(call: Call, args: Any, kwargs: Any) -> dict[str, Any]:
    """The call's arguments by the names that its meaning gives them. Raises Left if it has no such arguments."""
    try:
        bound = signature(call.meaning).bind(None, *args, **kwargs)
    except TypeError as error:
        raise Left(f"called with other arguments: {error}") from error
    arguments = dict(bound.arguments)
    del arguments["take"]
    return arguments
