"""Elementwise calls in terms of ops; each function has the arguments of the torch call of its name.

`apply(op, *x)` is the op on x under the chosen strategy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from surrogates.ops.abs import Abs
from surrogates.ops.ceil import Ceil
from surrogates.ops.floor import Floor
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.maximum import Maximum
from surrogates.ops.minimum import Minimum
from surrogates.ops.relu import ReLU
from surrogates.ops.round import Round
from surrogates.ops.sign import Sign
from surrogates.ops.trunc import Trunc

Apply = Callable[..., Tensor]


def round(apply: Apply, input: Tensor, *, decimals: int = 0) -> Tensor:
    """round(x 10^d) / 10^d; T is in units of the last decimal."""
    scale = 10.0**decimals
    return apply(Round(), input * scale) / scale if decimals else apply(Round(), input)


def floor(apply: Apply, input: Tensor) -> Tensor:
    """floor(x)."""
    return apply(Floor(), input)


def ceil(apply: Apply, input: Tensor) -> Tensor:
    """ceil(x)."""
    return apply(Ceil(), input)


def trunc(apply: Apply, input: Tensor) -> Tensor:
    """trunc(x)."""
    return apply(Trunc(), input)


def sign(apply: Apply, input: Tensor) -> Tensor:
    """sign(x)."""
    return apply(Sign(), input)


def heaviside(apply: Apply, input: Tensor, values: Tensor) -> Tensor:
    """heaviside(x), with any value at 0; no derivative by `values`."""
    return apply(Heaviside(), torch.broadcast_tensors(input, values)[0])  # type: ignore[no-untyped-call]


def floor_divide(apply: Apply, input: Any, other: Any) -> Tensor:
    """floor(a / b)."""
    return apply(Floor(), input / other)


def reversed_floor_divide(apply: Apply, input: Tensor, other: Any) -> Tensor:
    """floor(b / a)."""
    return apply(Floor(), other / input)


def div(apply: Apply, input: Any, other: Any, *, rounding_mode: str) -> Tensor:
    """floor(a / b) or trunc(a / b); a division without rounding is no hard call."""
    return apply({"floor": Floor(), "trunc": Trunc()}[rounding_mode], input / other)


def abs(apply: Apply, input: Tensor) -> Tensor:
    """|x|."""
    return apply(Abs(), input)


def relu(apply: Apply, input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return apply(ReLU(), input)


def maximum(apply: Apply, input: Tensor, other: Tensor) -> Tensor:
    """max(a, b)."""
    return apply(Maximum(), input, other)


def minimum(apply: Apply, input: Tensor, other: Tensor) -> Tensor:
    """min(a, b)."""
    return apply(Minimum(), input, other)


def clamp(apply: Apply, input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """min(max(x, low), high) by the ops maximum and minimum, for numbers and tensors alike."""
    held = input if min is None else apply(Maximum(), input, min)
    return held if max is None else apply(Minimum(), held, max)


def clamp_min(apply: Apply, input: Tensor, min: Any) -> Tensor:
    """max(x, min)."""
    return clamp(apply, input, min)


def clamp_max(apply: Apply, input: Tensor, max: Any) -> Tensor:
    """min(x, max)."""
    return clamp(apply, input, None, max)
