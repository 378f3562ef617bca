"""y[...] with an index, or of a marked tensor: the floating tensor for the result of a `Use`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.indices import require_classes, table_rows
from surrogates.own_model.masks import reshape
from surrogates.own_model.use import Use, finite


def item(use: Use) -> Tensor:
    """A part of a marked tensor, or the entries of a table at an index."""
    table, key = use.args
    parts = key if isinstance(key, tuple) else (key,)
    if use.mark(table) is not None:
        if any(use.mark(part) is not None for part in parts):
            raise NotReplaced("an index of an index")
        return reshape(use)
    index = _marked_index(use, parts)
    before = _dims_before(parts, table.dim())
    if all(part is index or part is ... or (isinstance(part, slice) and part == slice(None)) for part in parts):
        return table_rows(use, index, table, before)
    return _entries(use, table, parts, index, before)


def _entries(use: Use, table: Tensor, parts: tuple[Any, ...], index: Tensor, before: int) -> Tensor:
    """sum_n row_n y[..., n, ...]: the index tensors get one more dimension, that of n."""
    rows = use.lift(index, index=True)
    place = next(i for i, part in enumerate(parts) if part is index)
    require_classes(rows, table.shape[sum(_dims_of(part, parts, table.dim()) for part in parts[:place])])
    every = torch.arange(rows.shape[-1], device=rows.device).expand(*index.shape, -1)
    key = [every if part is index else part.unsqueeze(-1) if isinstance(part, Tensor) else part for part in parts]
    shapes = (part.shape for part in parts if isinstance(part, Tensor))
    shape = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    values = finite(table[tuple(key)]).movedim(before + len(shape), -1)
    after = values.dim() - 1 - before - len(shape)
    rows = rows.expand(*shape, -1)[(..., *[None] * after, slice(None))]
    return use.linear(rows, lambda rows: (rows * values).sum(-1))


def _marked_index(use: Use, parts: tuple[Any, ...]) -> Tensor:
    """The only index with a derivative.

    Raises NotReplaced if there are several, or a part of the key is not understood.
    """
    if any(isinstance(part, Tensor) and part.dtype in (torch.bool, torch.uint8) for part in parts):
        raise NotReplaced("boolean indexing has no derivative by the mask")
    if not all(part is None or part is ... or isinstance(part, (slice, Tensor)) or type(part) is int for part in parts):
        raise NotReplaced("only slices, None, whole numbers and tensors may stand beside the index")
    marked = [part for part in parts if use.mark(part) is not None]
    if len(marked) != 1:
        raise NotReplaced("several indices with a derivative")
    index: Tensor = marked[0]
    return index


def _dims_before(parts: tuple[Any, ...], dims: int) -> int:
    """The number of the result's dimensions before those of the index tensors.

    Raises NotReplaced if the index tensors are not next to each other.
    """
    places = [i for i, part in enumerate(parts) if isinstance(part, Tensor)]
    if len(places) != places[-1] - places[0] + 1:
        raise NotReplaced("the index tensors are not next to each other")
    before = parts[: places[0]]
    return sum(1 if part is None else 0 if type(part) is int else _dims_of(part, parts, dims) for part in before)


def _dims_of(part: Any, parts: tuple[Any, ...], dims: int) -> int:
    """The number of the table's dimensions that a part of the key takes."""
    if part is ...:
        return dims - sum(other is not None and other is not ... for other in parts)
    return 0 if part is None else 1
