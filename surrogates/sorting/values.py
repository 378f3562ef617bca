"""The sorted values and the ranks of rows (..., n), ascending."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def to_last(x: Tensor, dim: int) -> Tensor:
    """Moves a dim to the end."""
    return x if dim == -1 else x.movedim(dim, -1)


def from_last(x: Tensor, dim: int) -> Tensor:
    """Moves the last dim to where `dim` was."""
    return x if dim == -1 else x.movedim(-1, dim)


def ordered(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The sorted values, with their graph, and the order; tied entries stay in their order."""
    order = rows.detach().sort(dim=-1, stable=True).indices
    return rows.gather(-1, order), order


def shared(rows: Tensor) -> Tensor:
    """The sorted values; the derivative of each is shared evenly among the entries equal to it."""
    values, _ = ordered(rows)
    level = values.detach()
    group = _groups(level)
    zeros = torch.zeros_like(level)
    tied = zeros.scatter_add(-1, group, torch.ones_like(level)).gather(-1, group)
    means = zeros.scatter_add(-1, group, values / tied)  # divided before the sum, which could overflow
    return means.gather(-1, group)


def with_nan_rows(values: Tensor, rows: Tensor) -> Tensor:
    """Values (..., k) of rows (..., n), NaN where the row has a NaN."""
    return values.masked_fill(rows.isnan().any(-1, keepdim=True), math.nan)


def hard_ranks(rows: Tensor) -> Tensor:
    """1 + number of smaller entries, by calls that ONNX has too."""
    values, order = rows.detach().sort(dim=-1)
    group = _groups(values)
    sizes = torch.zeros_like(group).scatter_add(-1, group, torch.ones_like(group))
    smaller = (sizes.cumsum(-1) - sizes).gather(-1, group)
    return with_nan_rows((1 + torch.zeros_like(group).scatter(-1, order, smaller)).to(rows.dtype), rows)


def _groups(values: Tensor) -> Tensor:
    """The index, from 0, of the group of equal values that each sorted value belongs to."""
    changes = (values[..., 1:] != values[..., :-1]).long().cumsum(-1)
    return torch.cat([torch.zeros_like(values[..., :1], dtype=torch.long), changes], -1)


def without_infinity(x: Tensor) -> Tensor:
    """x with 0 in place of infinite entries."""
    return torch.where(x.isinf(), 0, x)
