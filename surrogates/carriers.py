"""Carriers, tensors of which only the derivative is used, and the dtype's neighbours of a bound."""

from __future__ import annotations

import math
import sys
from functools import cache

import torch
from torch import Tensor

SMALLEST_NORMAL = sys.float_info.min


def detached(x: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The tensors without their graph; a grafted value needs none."""
    return tuple(tensor.detach() for tensor in x)


def flat(x: Tensor) -> Tensor:
    """0 with a graph to x; its derivative is exactly 0, even if x or the incoming gradient is infinite."""
    return torch.where(torch.zeros((), dtype=torch.bool, device=x.device), x, torch.zeros((), dtype=x.dtype))


def passing(x: Tensor, mask: Tensor) -> Tensor:
    """A carrier with x's derivative where `mask` holds and 0 elsewhere.

    A product, since `where` is 8 x slower on a CPU. Where x is infinite and the mask is off the carrier is NaN, and the
    derivative that `graft` gives is 0 there too.
    """
    return x * mask


def passing_between(x: Tensor, low: float, high: float, strict: bool = False) -> Tensor:
    """A carrier with x's derivative on [low, high], or on (low, high) if `strict`, and 0 elsewhere.

    hardtanh's derivative is 0 at both of its bounds on every torch. So for inclusive bounds each bound is moved out to
    the next number. It takes one kernel, a mask takes four.
    """
    if x.dtype not in (torch.float32, torch.float64) or torch.compiler.is_compiling():
        return torch.where((x > low) & (x < high) if strict else (x >= low) & (x <= high), x, 0)
    if not strict:
        low, high = around(low, high, x.dtype)
    held: Tensor = torch.nn.functional.hardtanh(x, low, high)
    return held


def denormals_are_zero() -> bool:
    """Whether this thread treats denormal numbers as 0 (`torch.set_flush_denormal`)."""
    return SMALLEST_NORMAL / 2 == 0.0


def around(low: float, high: float, dtype: torch.dtype) -> tuple[float, float]:
    """The next number of the dtype below `low` and the next above `high`.

    If denormal numbers are 0, the neighbour of 0 is the smallest normal number.
    """
    return _around(low, high, dtype, denormals_are_zero())


@cache
def _around(low: float, high: float, dtype: torch.dtype, without_denormals: bool) -> tuple[float, float]:
    bounds = torch.tensor([low, high], dtype=dtype)
    below, above = torch.nextafter(bounds, torch.tensor([-math.inf, math.inf], dtype=dtype)).tolist()
    least = torch.finfo(dtype).tiny if without_denormals else 0.0
    return below if low else min(below, -least), above if high else max(above, least)
