"""Calls that write numbers at an index: each function returns the floating tensor for the result of a `Use`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.indices import part_in_reach, require_classes
from surrogates.own_model.masks import same
from surrogates.own_model.use import Use, finite


def scatter(use: Use) -> Tensor:
    """x + sum_i row_i (source_i - x) along the dim.

    Raises NotReplaced for scatter's `reduce`.
    """
    if "reduce" in use.kwargs or len(use.args) > 4:
        raise NotReplaced("reduce is not supported")
    return _spread(use, "value" if "value" in use.kwargs else "src", lambda source, x: finite(source - x))


def scatter_add(use: Use) -> Tensor:
    """x + sum_i row_i source_i along the dim."""
    return _spread(use, "src", lambda source, x: finite(source))


def _spread(use: Use, name: str, change: Any) -> Tensor:
    x, dim, index = (use.argument(i, name) for i, name in enumerate(("input", "dim", "index")))
    source = use.argument(3, name)
    if use.mark(index) is None:
        return same(use)
    rows = use.lift(index, index=True)
    like = use.result if use.result.is_floating_point() else rows
    x, source = use.number(x, like), use.number(source, like)
    part, dim = part_in_reach(x, index, dim), dim % x.dim()
    require_classes(rows, x.shape[dim])
    if source.dim():
        source = part_in_reach(source, index, dim).narrow(dim, 0, index.shape[dim])
    changes = change(source.unsqueeze(-1), part.movedim(dim, -1).unsqueeze(dim))
    room = [(0, n - m) for n, m in zip(x.shape, part.shape, strict=True)]

    def spread(rows: Tensor) -> Tensor:
        return F.pad((rows * changes).sum(dim).movedim(-1, dim), [side for pair in room[::-1] for side in pair])

    if use.soft or not use.result.is_floating_point():
        infinite = x.isinf() | use.result.isinf()
        return torch.where(infinite, use.result, x + spread(rows.to(like.dtype)))
    return use.linear(rows, spread)
