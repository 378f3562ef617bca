"""The largest or smallest entry of each group in terms of ops; the arguments are those of the torch call."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.known import is_traced
from surrogates.ops.max import Max
from surrogates.ops.min import Min
from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.elementwise import Apply


def scatter_reduce(
    apply: Apply, input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The largest or smallest of the entries of src that have the same index, for each entry of the input.

    The input's entry counts too with `include_self`, and is the result if no entry has its index.
    Memory O(groups times the size of the largest group).
    Raises NotReplaced if a tensor has no dimension.
    """
    if input.dim() == 0 or index.dim() == 0:
        raise NotReplaced("a tensor without dimensions")
    dim, filler = int(dim) % input.dim(), -math.inf if reduce == "amax" else math.inf
    groups = _groups(src, dim, index, input.shape, filler)
    own = input
    if not include_self:
        taken = torch.zeros_like(input, dtype=torch.bool).scatter(dim, index, True)
        own = torch.where(taken, filler, input)
    op = Max(-1) if reduce == "amax" else Min(-1)
    return apply(op, torch.cat([own.unsqueeze(-1), groups], -1))


def index_reduce(
    apply: Apply, input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """`scatter_reduce` with one index for each slice of the source along the dim.

    Raises NotReplaced if a tensor has no dimension.
    """
    if source.dim() == 0:
        raise NotReplaced("a tensor without dimensions")
    index = index.long().movedim(0, -1).expand(source.movedim(int(dim), -1).shape).movedim(-1, int(dim))
    return scatter_reduce(apply, input, dim, index, source, reduce, include_self=include_self)


def _groups(src: Tensor, dim: int, index: Tensor, shape: torch.Size, filler: float) -> Tensor:
    """The entries of each group in a new last dimension, filled up to the size of the largest group."""
    entries = src[tuple(map(slice, index.shape))].movedim(dim, -1)
    place, order = index.movedim(dim, -1).contiguous().sort(-1)
    rank = torch.arange(place.shape[-1], device=place.device) - torch.searchsorted(place, place)
    size = place.shape[-1] if is_traced() or not rank.numel() else int(rank.max()) + 1
    slots = entries.new_full((*place.shape[:-1], shape[dim] * size), filler)
    slots = slots.scatter(-1, place * size + rank, entries.gather(-1, order))
    slots = slots.reshape(*place.shape[:-1], shape[dim], size).movedim(-2, dim)
    room = [(0, n - m) for n, m in zip(shape, slots.shape[:-1], strict=True)]
    return F.pad(slots, [0, 0, *(side for pair in room[::-1] for side in pair)], value=filler)
