"""Comparisons and indices as numbers: 0 and 1, one-hot rows; each with the arguments of the torch call of its name."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from surrogates.ops.argmax import ArgMax
from surrogates.ops.argmin import ArgMin
from surrogates.ops.heaviside import Heaviside
from surrogates.own_model.choice import Left
from surrogates.own_model.elementwise import Take


def greater(take: Take, input: Any, other: Any) -> Tensor:
    """The step of a - b, 0 at 0."""
    return take(Heaviside(zero=0.0), input - other)


def greater_equal(take: Take, input: Any, other: Any) -> Tensor:
    """The step of a - b, 1 at 0."""
    return take(Heaviside(zero=1.0), input - other)


def less(take: Take, input: Any, other: Any) -> Tensor:
    """The step of b - a, 0 at 0."""
    return take(Heaviside(zero=0.0), other - input)


def less_equal(take: Take, input: Any, other: Any) -> Tensor:
    """The step of b - a, 1 at 0."""
    return take(Heaviside(zero=1.0), other - input)


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
