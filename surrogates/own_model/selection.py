"""Maxima, minima, order statistics and sorted values in terms of ops; the arguments are those of the torch call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surrogates.core import Op
from surrogates.known import at_hand
from surrogates.ops.max import Max
from surrogates.ops.maximum import Maximum
from surrogates.ops.median import Median
from surrogates.ops.min import Min
from surrogates.ops.minimum import Minimum
from surrogates.ops.quantile import Quantile
from surrogates.ops.sort import Sort
from surrogates.ops.top_k import TopK
from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.elementwise import Apply


def max(apply: Apply, input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Tensor:
    """The largest of all entries, the largest along a dim (values only), or the larger of two tensors."""
    second = dim if isinstance(dim, Tensor) else other
    return _reduce(apply, Max(-1), input, dim, keepdim) if second is None else apply(Maximum(), input, second)


def min(apply: Apply, input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Tensor:
    """The smallest of all entries, the smallest along a dim (values only), or the smaller of two tensors."""
    second = dim if isinstance(dim, Tensor) else other
    return _reduce(apply, Min(-1), input, dim, keepdim) if second is None else apply(Minimum(), input, second)


def amax(apply: Apply, input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The largest entry along one or several dims, or of all."""
    return _reduce(apply, Max(-1), input, dim, keepdim)


def amin(apply: Apply, input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest entry along one or several dims, or of all."""
    return _reduce(apply, Min(-1), input, dim, keepdim)


def aminmax(apply: Apply, input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest and the largest entry, of all or along a dim."""
    return amin(apply, input, dim, keepdim), amax(apply, input, dim, keepdim)


def topk(apply: Apply, input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Tensor:
    """The k largest values along a dim, or the k smallest."""
    if not sorted:
        raise NotReplaced("sorted=False returns no defined order")
    if input.dim() == 0 or k == 0:
        raise NotReplaced("no entries to sort")
    op = TopK(int(k), int(dim))
    return apply(op, input) if largest else -apply(op, -input)


def sort(apply: Apply, input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """The values along a dim, sorted."""
    if input.dim() == 0:
        raise NotReplaced("no entries to sort")
    return apply(Sort(bool(descending), int(dim)), input)


def msort(apply: Apply, input: Tensor) -> Tensor:
    """The values along the first dim, sorted."""
    return sort(apply, input, 0)


def median(apply: Apply, input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The lower of the two middle values, of all entries or along a dim."""
    if not input.numel():
        raise NotReplaced("no entries to sort")
    return _reduce(apply, Median(-1), input, dim, keepdim)


def kthvalue(apply: Apply, input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Tensor:
    """The k-th smallest value along a dim."""
    value = sort(apply, input, dim).narrow(int(dim), int(k) - 1, 1)
    return value if keepdim else value.squeeze(int(dim))


def quantile(
    apply: Apply,
    input: Tensor,
    q: float | Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The quantile along a dim, or of all entries; of several q in a new first dimension."""
    if interpolation != "linear":
        raise NotReplaced(f"interpolation='{interpolation}' has no op")
    if isinstance(q, Tensor) and (q.requires_grad or not q.numel() or not at_hand(q)):
        raise NotReplaced("a q that has a derivative or no entry, or whose numbers cannot be read")
    shares = q.flatten().tolist() if isinstance(q, Tensor) else [float(q)]
    found = [_reduce(apply, Quantile(share, -1), input, dim, keepdim) for share in shares]
    return torch.stack(found) if isinstance(q, Tensor) and q.dim() else found[0]


def _reduce(apply: Apply, op: Op, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """`op`, which works along the last dim, along the given dims (all for None and ())."""
    if input.dim() == 0:
        raise NotReplaced("a tensor without dimensions")
    given = [] if dim is None else list(dim) if isinstance(dim, (tuple, list)) else [dim]
    dims = [int(d) % input.dim() for d in given or range(input.dim())]
    rows = input.movedim(dims, tuple(range(-len(dims), 0))).flatten(-len(dims))
    values = apply(op, rows)
    for d in sorted(dims) if keepdim else ():
        values = values.unsqueeze(d)
    return values
