"""Checks of numbers that torch must hold, and the precision that ops compute in."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

import torch
from torch import Tensor

SMALLEST, LARGEST, RESOLUTION = 2.0**-126, 2.0**127 * (2 - 2.0**-23), 2.0**-23
WIDEST = 1e25  # a range's largest bound; float32 holds its product with the largest temperature, and sums of it
MOST = 2**31 - 1  # the largest count: of sizes, samples, steps


def require_float32(**constants: float) -> None:
    """Raises ValueError for the first constant that is NaN, or finite, not 0 and outside float32's normal range."""
    for name, value in constants.items():
        if math.isnan(value):
            raise ValueError(f"{name} must be a number, got {value}")
        if value != 0 and math.isfinite(value) and not SMALLEST <= abs(value) <= LARGEST:
            raise ValueError(
                f"{name} must be 0 or between {SMALLEST:.2g} and {LARGEST:.2g} in size (float32), got {value}"
            )


def require_count(least: int = 1, most: int = MOST, **counts: int) -> None:
    """Raises ValueError for the first count that is no whole number between `least` and `most`."""
    for name, value in counts.items():
        if type(value) is not int or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value}")
        if value > most:
            raise ValueError(f"{name} must be at most {most}, got {value}")


def require_power_of_two(**constants: float) -> None:
    """Raises ValueError for the first constant that is no power of two between 2^-20 and 2^20."""
    for name, value in constants.items():
        if not (2.0**-20 <= value <= 2.0**20 and math.frexp(value)[0] == 0.5):
            raise ValueError(f"{name} must be a power of two between 2^-20 and 2^20, got {value}")


def require_range(low: float, high: float, steps: int = 1) -> None:
    """Checks that float32 holds a range and the ends of its equal steps.

    Raises ValueError unless low < high are finite, at most WIDEST in size, and far enough apart for the steps.
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"low and high must be finite with low < high, got low={low} and high={high}")
    require_float32(low=low, high=high)
    size = max(abs(low), abs(high))
    if size > WIDEST:
        raise ValueError(f"low and high must be at most {WIDEST:g} in size, got low={low} and high={high}")
    if (high - low) / steps < max(SMALLEST, RESOLUTION * size):
        raise ValueError(
            f"low and high are too near apart for float32 to hold {steps + 1} values between them, "
            f"got low={low} and high={high}"
        )


def require_floating(op: object, *x: Tensor) -> None:
    """Raises TypeError, which names the op, if an input is not a floating tensor."""
    for tensor in x:
        if not tensor.is_floating_point():
            raise TypeError(f"{type(op).__name__} needs floating inputs, got {tensor.dtype}; convert with x.float()")


def in_float32(function: Callable[..., Tensor], *x: Tensor, **kwargs: Any) -> Tensor:
    """`function` of x, computed in float32 if x has lower precision; returned in x's dtype."""
    dtype = x[0].dtype
    if dtype in (torch.float64, torch.float32):
        return function(*x, **kwargs).to(dtype)
    return function(*(tensor.float() for tensor in x), **kwargs).to(dtype)


def without_autocast(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a Function's `forward` or `backward`: its products have the precision of their factors."""

    @wraps(method)
    def exact(ctx: Any, tensor: Tensor, *rest: Any) -> Any:
        with no_autocast(tensor):
            return method(ctx, tensor, *rest)

    return exact


def autocasts(x: Tensor) -> bool:
    """Whether autocast is on for x's device. Some devices have no autocast."""
    device = x.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def no_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """A block in which products of tensors on x's device have the precision of their factors."""
    return torch.autocast(x.device.type, enabled=False) if autocasts(x) else nullcontext()
