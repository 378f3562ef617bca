"""Marks the results of a call that have no graph, and says how ops read them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor

from surrogates.own_model import orders
from surrogates.own_model.arguments import by_name
from surrogates.own_model.calls import POSITIONS, Call
from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.elementwise import trunc
from surrogates.own_model.reading import not_equal
from surrogates.own_model.replacer import Reading, Replacer
from surrogates.own_model.tracking import tensors


def mark(replacer: Replacer, call: Call, function: Any, args: Any, kwargs: Any, where: str) -> Any:
    """The call itself, with its bool or integer result marked; a method that declines its operand returns no tensor.

    Raises NotReplaced if the call writes in place.
    """
    arguments = by_name(call, args, kwargs)
    if call.inplace:
        raise NotReplaced("in-place comparisons are not supported")
    result = function(*args, **kwargs)
    if isinstance(result, Tensor):
        _mark(replacer, call, result, call.meaning, arguments, where)
    return result


def mark_cast(replacer: Replacer, call: Call, function: Any, args: Any, kwargs: Any, where: str) -> Any:
    """The call itself; a result of integers or bools is marked as truncated numbers, or as those that are not 0."""
    result = function(*args, **kwargs)
    if isinstance(result, Tensor) and not result.is_floating_point() and not result.is_complex():
        read = partial(not_equal, other=0) if result.dtype == torch.bool else trunc
        replacer.mark(result, call.name, where, (args[0],), Reading(lambda ops: read(ops, args[0])))
    return result


def mark_positions(
    replacer: Replacer, call: Call, args: Any, kwargs: Any, results: tuple[Tensor, ...], where: str
) -> None:
    """Marks the indices that a call returns with its values; none if ops do not know the call's arguments."""
    with suppress(NotReplaced):
        arguments = by_name(call, args, kwargs)
        for index in results:
            if not index.is_floating_point():
                _mark(replacer, call, index, POSITIONS.get(call.name, orders.positions), arguments, where)


def _mark(replacer: Replacer, call: Call, result: Tensor, read: Any, arguments: dict[str, Any], where: str) -> None:
    reading = Reading(lambda ops: read(ops, **arguments), result.dtype != torch.bool)
    if read is orders.sort and result.dim():
        dim = int(arguments.get("dim", -1)) % result.dim()
        reading = reading._replace(dim=dim, ranks=lambda ops: orders.ranks(ops, **arguments))
    replacer.mark(result, call.name, where, tuple(tensors(tuple(arguments.values()))), reading)
