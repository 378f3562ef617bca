"""Calls that use an index: each function returns the floating tensor for the call's result.

An index is read as one-hot rows, the entries in their last dimension.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.masks import same
from surrogates.own_model.use import Use, finite


def embedding(use: Use) -> Tensor:
    """The rows of a table chosen by an index; F.embedding takes the index first, torch.embedding the table."""
    first, second = use.argument(0, "input"), use.argument(1, "weight")
    return table_rows(use, second, first) if use.mark(first) is None else table_rows(use, first, second)


def index_select(use: Use) -> Tensor:
    """sum_n row_n y_n along the dim, for an index of one dimension."""
    y, dim, index = (use.argument(i, name) for i, name in enumerate(("input", "dim", "index")))
    if use.mark(index) is None:
        return same(use)
    if index.dim() != 1 or y.dim() == 0:
        raise NotReplaced("no dimension to select from")
    return table_rows(use, index, y, dim)


def table_rows(use: Use, index: Tensor, table: Tensor, dim: int = 0) -> Tensor:
    """sum_n row_n y_n along a dim of the table; the dimensions of the index take its place."""
    rows, dim = use.lift(index, index=True), dim % table.dim()
    require_classes(rows, table.shape[dim])
    values, first = finite(use.lift(table)).movedim(dim, 0).to(rows.dtype), range(index.dim())
    places = [*first], [d + dim for d in first]
    return use.linear(rows, lambda rows: torch.tensordot(rows, values, 1).movedim(*places))


def one_hot(use: Use) -> Tensor:
    """The one-hot rows, padded to the number of classes, or without the classes above the largest index."""
    rows = use.lift(use.argument(0, "input"), index=True)
    return F.pad(rows, (0, use.result.shape[-1] - rows.shape[-1]))


def gather(use: Use) -> Tensor:
    """sum_n row_n y_n along the dim."""
    y, dim, index = (use.argument(i, name) for i, name in enumerate(("input", "dim", "index")))
    if use.mark(index) is None:
        return same(use)
    return _along(use, part_in_reach(use.lift(y), index, dim), index, dim)


def take_along_dim(use: Use) -> Tensor:
    """`gather` with dimensions of size 1 repeated; without a dim, among all entries."""
    y, index, dim = use.argument(0, "input"), use.argument(1, "indices"), use.optional(2, "dim")
    if use.mark(index) is None:
        return same(use)
    y = use.lift(y)
    return _along(use, y if dim is not None else y.flatten(), index, 0 if dim is None else dim)


def _along(use: Use, y: Tensor, index: Tensor, dim: int) -> Tensor:
    rows, dim = use.lift(index, index=True), dim % y.dim()
    require_classes(rows, y.shape[dim])
    values = finite(y).movedim(dim, -1).unsqueeze(dim)
    return use.linear(rows, lambda rows: (rows * values).sum(-1).reshape(use.result.shape))


def equal(use: Use) -> Tensor:
    """The rows' entry at a whole number."""
    index, number = use.argument(0, "input"), use.argument(1, "other")
    mark = use.mark(index)
    if mark is None or not mark.index or type(number) is not int:
        raise NotReplaced("only an index has a derivative, if it is compared with a whole number")
    rows: Tensor = use.lift(index, index=True)
    return (rows * (torch.arange(rows.shape[-1], device=rows.device) == number)).sum(-1)


def not_equal(use: Use) -> Tensor:
    """1 - (index == number)."""
    return 1 - equal(use)


def ranks(use: Use) -> Tensor:
    """The rank of each entry, from 0, for argsort of the indices of a sort along the same dim."""
    mark = use.mark(use.argument(0, "input"))
    dim, descending = use.optional(1, "dim", -1), use.optional(2, "descending", False)
    if mark is None or mark.order is None or descending or dim % use.result.dim() != mark.order.dim:
        raise NotReplaced("argsort of an index is replaced only for ranks: x.argsort(dim).argsort(dim)")
    numbers = mark.order.ranks()
    use.soft |= numbers.soft
    return numbers.value


def part_in_reach(y: Tensor, index: Tensor, dim: int) -> Tensor:
    """The part of y that an index along a dim reaches, its size in the other dims.

    Raises NotReplaced if y has no dimensions, or the index has other ones.
    """
    if y.dim() == 0 or index.dim() != y.dim():
        raise NotReplaced("a tensor and an index without common dimensions")
    for d, n in enumerate(index.shape):
        y = y if d == dim % y.dim() else y.narrow(d, 0, n)
    return y


def require_classes(rows: Tensor, classes: int) -> None:
    """Raises NotReplaced if an index among some entries is used for another number of entries."""
    if rows.shape[-1] != classes:
        raise NotReplaced(f"an index among {rows.shape[-1]} entries used for {classes} entries")
