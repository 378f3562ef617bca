"""Carriers: tensors of which only the derivative is used, and the numbers next to a bound."""

from __future__ import annotations

import math
import sys
from functools import cache

import torch
from torch import Tensor

SMALLEST_NORMAL = sys.float_info.min


def detached(x: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The tensors without their graph, which a value that is grafted does not need."""
    return tuple(tensor.detach() for tensor in x)


def flat(x: Tensor) -> Tensor:
    """A zero in the graph of x: derivative exactly 0, even for infinite x or incoming gradient."""
    return torch.where(torch.zeros((), dtype=torch.bool, device=x.device), x, torch.zeros((), dtype=x.dtype))


def passing(x: Tensor, mask: Tensor) -> Tensor:
    """A carrier with x's derivative where `mask` and 0 elsewhere; a product, since `where` is 8 x slower on a CPU.

    NaN where x is infinite and the mask is off: graft's derivative is 0 there too.
    """
    return x * mask


def passing_between(x: Tensor, low: float, high: float, strict: bool = False) -> Tensor:
    """A carrier with x's derivative on [low, high], or on (low, high) if `strict`, and 0 elsewhere.

    hardtanh's derivative is 0 at both of its bounds on every torch, so inclusive bounds are its bounds moved out by one
    number; it takes one kernel where the mask takes four.
    """
    if x.dtype not in (torch.float32, torch.float64) or torch.compiler.is_compiling():
        return torch.where((x > low) & (x < high) if strict else (x >= low) & (x <= high), x, 0)
    if not strict:
        low, high = around(low, high, x.dtype)
    held: Tensor = torch.nn.functional.hardtanh(x, low, high)
    return held


def denormals_are_zero() -> bool:
    """Whether this thread takes numbers too small for full precision as 0 (`torch.set_flush_denormal`)."""
    return SMALLEST_NORMAL / 2 == 0.0


def around(low: float, high: float, dtype: torch.dtype) -> tuple[float, float]:
    """The numbers of a dtype next below `low` and next above `high`.

    Where denormal numbers are 0, next to 0 is the smallest normal one.
    """
    return _around(low, high, dtype, denormals_are_zero())


@cache
def _around(low: float, high: float, dtype: torch.dtype, without_denormals: bool) -> tuple[float, float]:
    bounds = torch.tensor([low, high], dtype=dtype)
    below, above = torch.nextafter(bounds, torch.tensor([-math.inf, math.inf], dtype=dtype)).tolist()
    least = torch.finfo(dtype).tiny if without_denormals else 0.0
    return below if low else min(below, -least), above if high else max(above, least)
