"""Chooses how each torch call in a block of `through` is handled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from surrogates.own_model import drawing, elementwise, handling, marking
from surrogates.own_model.calls import CALLS, CONVERSIONS, DRAWN, MARKED, NEUTRAL, USES, Call, has_hard_word
from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.detached import DETACHING, SUMS
from surrogates.own_model.entered import mark_of
from surrogates.own_model.estimators import detach, detach_marked, report_no_grad, report_unrecorded
from surrogates.own_model.marks import Mark
from surrogates.own_model.replacements import source
from surrogates.own_model.replacer import Replacer
from surrogates.own_model.tracking import graphs, is_recorded, tensors
from surrogates.own_model.unsupported import REASONS_OF_USES, UNSUPPORTED, without_op

Handle = Callable[..., Any]
KNOWN = {*CALLS, *MARKED, *DRAWN, *CONVERSIONS, *UNSUPPORTED, *DETACHING}


def dispatch(replacer: Replacer, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Replaces or marks the call, or makes it as plain torch does; reports a hard call that is not replaced."""
    given = list(tensors((*args, *kwargs.values())))
    marks = {id(x): mark for x in given if (mark := mark_of(x)) and (function in USES or not mark.detached)}
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
