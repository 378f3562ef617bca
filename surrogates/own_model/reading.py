"""Comparisons and indices as numbers: 0 and 1, one-hot rows; each with the arguments of the torch call of its name."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from surrogates.ops.argmax import ArgMax
from surrogates.ops.argmin import ArgMin
from surrogates.ops.compare import Compare
from surrogates.own_model.choice import Left
from surrogates.own_model.elementwise import Take


def greater(take: Take, input: Any, other: Any) -> Tensor:
    """a > b."""
    return _compared(take, Compare(">"), input, other)


def greater_equal(take: Take, input: Any, other: Any) -> Tensor:
    """a >= b."""
    return _compared(take, Compare(">="), input, other)


def less(take: Take, input: Any, other: Any) -> Tensor:
    """a < b."""
    return _compared(take, Compare("<"), input, other)


def less_equal(take: Take, input: Any, other: Any) -> Tensor:
    """a <= b."""
    return _compared(take, Compare("<="), input, other)


def equal(take: Take, input: Any, other: Any) -> Tensor:
    """a == b."""
    return _compared(take, Compare("=="), input, other)


def not_equal(take: Take, input: Any, other: Any) -> Tensor:
    """1 - (a == b)."""
    return 1 - equal(take, input, other)


def _compared(take: Take, op: Compare, input: Any, other: Any) -> Tensor:
    like = input if isinstance(input, Tensor) and input.is_floating_point() else other
    number = partial(torch.as_tensor, dtype=like.dtype, device=like.device)
    a, b = (x if isinstance(x, Tensor) else number(x) for x in (input, other))
    return take(op, a, b)


def argmax(take: Take, input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """One-hot rows, the classes in a last dimension of their own."""
    return _rows(take, ArgMax(-1), input, dim, keepdim)


def argmin(take: Take, input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """One-hot rows, the classes in a last dimension of their own."""
    return _rows(take, ArgMin(-1), input, dim, keepdim)


def _rows(take: Take, op: ArgMax | ArgMin, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if dim is None:
        rows = take(op, input.reshape(-1))
        return rows.reshape(*[1] * input.dim(), -1) if keepdim else rows
    rows = take(op, input.movedim(dim, -1))
    return rows.unsqueeze(dim % input.dim()) if keepdim else rows


def positions(take: Take, **arguments: Any) -> Tensor:
    """Indices that no op here reads."""
    raise Left("indices of several entries; the op top_k_mask has a derivative")
