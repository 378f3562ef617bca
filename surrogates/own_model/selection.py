"""Maxima, minima, top-k and sorted values in terms of ops, each with the arguments of the torch call of its name."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from surrogates.core import Op
from surrogates.ops.max import Max
from surrogates.ops.maximum import Maximum
from surrogates.ops.min import Min
from surrogates.ops.minimum import Minimum
from surrogates.ops.sort import Sort
from surrogates.ops.top_k import TopK
from surrogates.own_model.choice import Left
from surrogates.own_model.elementwise import Take


def max(take: Take, input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Tensor:
    """The largest of all entries, the largest along a dim (values only), or the larger of two tensors."""
    second = dim if isinstance(dim, Tensor) else other
    return _reduced(take, Max(-1), input, dim, keepdim) if second is None else take(Maximum(), input, second)


def min(take: Take, input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Tensor:
    """The smallest of all entries, the smallest along a dim (values only), or the smaller of two tensors."""
    second = dim if isinstance(dim, Tensor) else other
    return _reduced(take, Min(-1), input, dim, keepdim) if second is None else take(Minimum(), input, second)


def amax(take: Take, input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The largest entry along one or several dims, or of all."""
    return _reduced(take, Max(-1), input, dim, keepdim)


def amin(take: Take, input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest entry along one or several dims, or of all."""
    return _reduced(take, Min(-1), input, dim, keepdim)


def topk(take: Take, input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Tensor:
    """The k largest values along a dim, or the k smallest."""
    if not sorted:
        raise Left("sorted=False has no stated order")
    if input.dim() == 0 or k == 0:
        raise Left("nothing to choose from")
    op = TopK(int(k), dim)
    return take(op, input) if largest else -take(op, -input)


def sort(take: Take, input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """The values along a dim in order."""
    if input.dim() == 0:
        raise Left("nothing to choose from")
    return take(Sort(bool(descending), dim), input)


def msort(take: Take, input: Tensor) -> Tensor:
    """The values along the first dim in order."""
    return sort(take, input, 0)


def _reduced(take: Take, op: Op, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """`op`, which works along the last dim, along the given ones (all for None and ())."""
    if input.dim() == 0:
        raise Left("nothing to choose from")
    given = (
        range(input.dim())
        if dim is None or dim == () or dim == []
        else dim
        if isinstance(dim, (tuple, list))
        else (dim,)
    )
    dims = [d % input.dim() for d in given]
    rows = input.movedim(dims, tuple(range(-len(dims), 0))).flatten(-len(dims))
    values = take(op, rows)
    for d in sorted(dims) if keepdim else ():
        values = values.unsqueeze(d)
    return values
