"""Elementwise calls in terms of ops: each function has the arguments of the torch call of its name.

`take(op, *x)` is the op on x under the chosen strategy. `Left` is raised for a form of the call that no op covers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from surrogates.ops.abs import Abs
from surrogates.ops.ceil import Ceil
from surrogates.ops.clamp import Clamp
from surrogates.ops.floor import Floor
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.maximum import Maximum
from surrogates.ops.minimum import Minimum
from surrogates.ops.relu import ReLU
from surrogates.ops.round import Round
from surrogates.ops.sign import Sign
from surrogates.ops.trunc import Trunc
from surrogates.own_model.choice import Left

Take = Callable[..., Tensor]


def round(take: Take, input: Tensor, *, decimals: int = 0) -> Tensor:
    """round(x 10^d) / 10^d: T is in units of the last decimal."""
    scale = 10.0**decimals
    return take(Round(), input * scale) / scale if decimals else take(Round(), input)


def floor(take: Take, input: Tensor) -> Tensor:
    """floor(x)."""
    return take(Floor(), input)


def ceil(take: Take, input: Tensor) -> Tensor:
    """ceil(x)."""
    return take(Ceil(), input)


def trunc(take: Take, input: Tensor) -> Tensor:
    """trunc(x)."""
    return take(Trunc(), input)


def sign(take: Take, input: Tensor) -> Tensor:
    """sign(x)."""
    return take(Sign(), input)


def heaviside(take: Take, input: Tensor, values: Tensor) -> Tensor:
    """heaviside(x), whatever its value at 0; no derivative by `values`."""
    return take(Heaviside(), input)


def floor_divide(take: Take, input: Any, other: Any) -> Tensor:
    """floor(a / b)."""
    return take(Floor(), input / other)


def reversed_floor_divide(take: Take, input: Tensor, other: Any) -> Tensor:
    """floor(b / a)."""
    return take(Floor(), other / input)


def div(take: Take, input: Any, other: Any, *, rounding_mode: str) -> Tensor:
    """floor(a / b) or trunc(a / b); an ordinary division is no hard call."""
    return take({"floor": Floor(), "trunc": Trunc()}[rounding_mode], input / other)


def abs(take: Take, input: Tensor) -> Tensor:
    """|x|."""
    return take(Abs(), input)


def relu(take: Take, input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return take(ReLU(), input)


def maximum(take: Take, input: Tensor, other: Tensor) -> Tensor:
    """max(a, b)."""
    return take(Maximum(), input, other)


def minimum(take: Take, input: Tensor, other: Tensor) -> Tensor:
    """min(a, b)."""
    return take(Minimum(), input, other)


def clamp(take: Take, input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Between two numbers Clamp, with one number relu moved there, with tensors the maximum, then the minimum."""
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        held = input if min is None else take(Maximum(), input, min)
        return held if max is None else take(Minimum(), held, max)
    low, high = -math.inf if min is None else float(min), math.inf if max is None else float(max)
    if not low < high or low == math.inf or high == -math.inf:
        raise Left(f"no interval: [{low}, {high}]")
    if low == -math.inf:
        return high - take(ReLU(), high - input)
    return low + take(ReLU(), input - low) if high == math.inf else take(Clamp(low, high), input)


def clamp_min(take: Take, input: Tensor, min: Any) -> Tensor:
    """max(x, min)."""
    return clamp(take, input, min)


def clamp_max(take: Take, input: Tensor, max: Any) -> Tensor:
    """min(x, max)."""
    return clamp(take, input, None, max)
