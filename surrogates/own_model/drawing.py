"""Makes a random call once, and gives its result the derivative of its expectation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surrogates.core import graft
from surrogates.own_model.arguments import by_name
from surrogates.own_model.calls import Call
from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.marks import Mark, Numbers
from surrogates.own_model.replacements import is_called_by_torch
from surrogates.own_model.replacer import OpsOfCall, Replacer


def draw(replacer: Replacer, call: Call, function: Any, args: Any, kwargs: Any, where: str) -> Tensor:
    """torch's own draw with the derivative of its expectation, or marked with it if the draw has integers or bools.

    Raises NotReplaced before the draw, because the plain call that follows draws too.
    """
    if is_called_by_torch():
        raise NotReplaced("sample() of torch.distributions has no derivative by definition")
    arguments = by_name(call, args, kwargs)
    if call.inplace:
        arguments.setdefault("p", 0.5)
    ops = OpsOfCall(replacer)
    expectation = call.meaning(ops, **arguments)
    drawn: Tensor = function(*args, **kwargs)
    ops.report(call.name, where, expectation)
    if call.inplace and not drawn.numel():  # here torch accepts a probability of any shape
        return drawn
    if drawn.is_floating_point():
        value = graft(drawn.detach().clone(), expectation.expand(drawn.shape))
        return drawn.copy_(value) if call.inplace else value
    index = expectation.dim() > drawn.dim()
    value = drawn.unsqueeze(-1) == torch.arange(expectation.shape[-1], device=drawn.device) if index else drawn
    numbers = Numbers(graft(value.to(expectation.dtype), expectation.expand(value.shape)), False)
    replacer.marks.put(drawn, Mark(call.name, where, (expectation,), lambda: numbers, index))
    return drawn
