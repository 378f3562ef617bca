"""The code's own estimators in a block: detached tensors, torch.no_grad and custom Functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.autograd.graph import Node

from surrogates.own_model.calls import CALLS, MARKED
from surrogates.own_model.custom_function import custom_function
from surrogates.own_model.detached import DETACHING, Discard
from surrogates.own_model.effect import effects_before
from surrogates.own_model.marks import Mark, Numbers
from surrogates.own_model.replacements import is_called_by_torch
from surrogates.own_model.replacer import Replacer
from surrogates.own_model.tracking import on_graph

HARD = {**CALLS, **MARKED}


def detach(replacer: Replacer, function: Callable[[Tensor], Tensor], x: Tensor, where: str) -> Tensor:
    """The detached x; the block keeps x for sums that contain the result, except in torch's own layers."""
    if is_called_by_torch():
        return function(x)
    name = DETACHING[function]
    if not on_graph(x).requires_grad:
        replacer.not_replaced(name, "in forward mode it is unknown whose derivatives it throws away", where)
    return replacer.detached.detach(function, x, f"{name} at {where}")


def detach_marked(
    replacer: Replacer, function: Callable[[Tensor], Tensor], x: Tensor, mark: Mark, where: str
) -> Tensor:
    """The detached x, with a mark whose numbers are detached, so that a sum can contain them."""

    def numbers() -> Numbers:
        value, soft = mark.numbers
        return Numbers(replacer.detached.detach(Tensor.detach, value, f"{DETACHING[function]} at {where}"), soft)

    result = function(x)
    replacer.marks.put(result, Mark(mark.call, mark.where, mark.sources, numbers, mark.index, detached=True))
    return result


def report_no_grad(nodes: list[Node], where: str) -> None:
    """Reports the calls before these nodes, whose derivatives torch.no_grad throws away; not in a custom Function."""
    if custom_function("forward", "backward") is None:
        for node in nodes:
            Discard(node, f"torch.no_grad at {where}").report()


def report_unrecorded(replacer: Replacer, function: Any, nodes: list[Node], where: str) -> None:
    """Reports a hard function of which no derivative by the results of these nodes is recorded.

    If a custom Function makes the call, the block keeps its name. Outside of one, a comparison or an index is not
    reported.
    """
    call, custom = HARD[function], custom_function("forward")
    if custom:
        replacer.hard_functions[f"{custom}Backward"] = f"{call.name} inside {custom}"
        soft = replacer.soft and any(effect.soft for node in nodes for effect in effects_before(node))
        mixture = "; its input is soft, so the model is neither hard nor soft" if soft else ""
        reason = f"inside {custom}, a custom Function with its own backward{mixture}"
        replacer.not_replaced(call.name, reason, where)
    elif function in CALLS:
        replacer.not_replaced(call.name, "no derivative is recorded", where)
