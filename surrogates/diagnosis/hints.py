"""Hints for calls whose result is constant because of the shape of their input."""

from __future__ import annotations

from surrogates.diagnosis.causes import Cause
from surrogates.diagnosis.trace import Operation

# constant, up to a sign, over one entry
NORMALIZING = ("softmax", "log_softmax", "softmin", "gumbel_softmax", "normalize", "layer_norm", "cross_entropy")


def one_entry(call: Operation) -> str:
    """A hint for a call on a tensor that has a dimension with one entry."""
    shapes = [tuple(value.tensor.shape) for value in call.inputs[:1] if 1 in value.tensor.shape]
    if call.name not in NORMALIZING or not shapes:
        return ""
    return f". Its input has the shape {shapes[0]}; over a dimension with one entry {call.name} is constant"


def all_chosen(cause: Cause) -> str:
    """A hint for a topk that returns as many entries as it is given."""
    output, shapes = cause.output, [value.tensor.shape for value in cause.call.inputs[:1]]
    if cause.call.name != "topk" or output is None or output.tensor.shape not in shapes:
        return ""
    return "; k is the number of entries, so all are chosen: a mask of them is constant"
