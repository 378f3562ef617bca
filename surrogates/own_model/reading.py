"""Comparisons as 0 and 1, indices as one-hot rows; each function has the arguments of the torch call of its name."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from surrogates.ops.argmax import ArgMax
from surrogates.ops.argmin import ArgMin
from surrogates.ops.compare import Compare
from surrogates.own_model.elementwise import Apply


def greater(apply: Apply, input: Any, other: Any) -> Tensor:
    """a > b."""
    return apply(Compare(">"), input, other)


def greater_equal(apply: Apply, input: Any, other: Any) -> Tensor:
    """a >= b."""
    return apply(Compare(">="), input, other)


def less(apply: Apply, input: Any, other: Any) -> Tensor:
    """a < b."""
    return apply(Compare("<"), input, other)


def less_equal(apply: Apply, input: Any, other: Any) -> Tensor:
    """a <= b."""
    return apply(Compare("<="), input, other)


def equal(apply: Apply, input: Any, other: Any) -> Tensor:
    """a == b."""
    return apply(Compare("=="), input, other)


def not_equal(apply: Apply, input: Any, other: Any) -> Tensor:
    """1 - (a == b)."""
    return 1 - equal(apply, input, other)


def argmax(apply: Apply, input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """One-hot rows, the classes in a new last dimension."""
    return _rows(apply, ArgMax(-1), input, dim, keepdim)


def argmin(apply: Apply, input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """One-hot rows, the classes in a new last dimension."""
    return _rows(apply, ArgMin(-1), input, dim, keepdim)


def _rows(apply: Apply, op: ArgMax | ArgMin, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if dim is None:
        rows = apply(op, input.reshape(-1))
        return rows.reshape(*[1] * input.dim(), -1) if keepdim else rows
    rows = apply(op, input.movedim(dim, -1))
    return rows.unsqueeze(dim % input.dim()) if keepdim else rows
