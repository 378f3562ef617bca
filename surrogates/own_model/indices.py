"""Calls that use the result of argmax or argmin: each function returns the floating tensor for the call's result."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.masks import reshape
from surrogates.own_model.use import Use, finite


def item(use: Use) -> Tensor:
    """A part of a mask, or the rows of a table chosen by an index."""
    table, key = use.args
    if use.mark(table) is not None:
        return reshape(use)
    if not isinstance(key, Tensor) or key.dtype == torch.bool:
        raise NotReplaced("boolean indexing has no derivative by the mask")
    return _rows(use, key, table)


def embedding(use: Use) -> Tensor:
    """The rows of a table chosen by an index; F.embedding takes the index first, torch.embedding the table."""
    first, second = use.argument(0, "input"), use.argument(1, "weight")
    return _rows(use, second, first) if use.mark(first) is None else _rows(use, first, second)


def one_hot(use: Use) -> Tensor:
    """The one-hot rows, padded to the number of classes."""
    numbers = use.lift(use.argument(0, "input"), index=True)
    return F.pad(numbers, (0, use.result.shape[-1] - numbers.shape[-1]))


def gather(use: Use) -> Tensor:
    """sum_n row_n y_n along the dim."""
    y, dim, index = (use.argument(i, name) for i, name in enumerate(("input", "dim", "index")))
    numbers, dim = use.lift(index, index=True), dim % max(y.dim(), 1)
    _require_classes(numbers, y.shape[dim])
    for d, n in enumerate(index.shape):
        y = y if d == dim else y.narrow(d, 0, n)
    values = finite(y).movedim(dim, -1).unsqueeze(dim)
    return use.linear(numbers, lambda rows: (rows * values).sum(-1))


def _rows(use: Use, index: Tensor, table: Tensor) -> Tensor:
    numbers = use.lift(index, index=True)
    _require_classes(numbers, table.shape[0])
    return use.linear(numbers, lambda rows: torch.tensordot(rows, finite(table).to(rows.dtype), 1))


def _require_classes(numbers: Tensor, classes: int) -> None:
    if numbers.shape[-1] != classes:
        raise NotReplaced(f"an index among {numbers.shape[-1]} entries used for {classes} entries")
