"""Indices of ordered entries as rows of a permutation matrix, and ranks; arguments are those of the torch call.

`apply(op, *x)` is the op on x under the chosen strategy. The entries are in a new last dimension.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from surrogates.ops.permutation import Permutation
from surrogates.ops.rank import Rank
from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.elementwise import Apply


def sort(apply: Apply, input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """The row of each rank."""
    return _rows(apply, input, dim, bool(descending))


def ranks(apply: Apply, input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """The rank of each entry, from 0: the numbers that `argsort` of the indices of `sort` stands for."""
    return apply(Rank(bool(descending), int(dim)), input) - 1


def topk(apply: Apply, input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Tensor:
    """The rows of the k largest entries, or of the k smallest."""
    if not sorted:
        raise NotReplaced("sorted=False returns no defined order")
    return _rows(apply, input, dim, bool(largest), int(k))


def kthvalue(apply: Apply, input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Tensor:
    """The row of the k-th smallest entry."""
    rows = _rows(apply, input, dim, False, int(k))
    place = int(dim) % input.dim()
    row = rows.narrow(place, int(k) - 1, 1)
    return row if keepdim else row.squeeze(place)


def median(apply: Apply, input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The row of the median, the lower of the two middle entries."""
    n = input.shape[dim] if input.dim() else 0
    return kthvalue(apply, input, (n + 1) // 2, dim, keepdim)


def positions(apply: Apply, **arguments: Any) -> Tensor:
    """Raises NotReplaced: no op returns these indices."""
    raise NotReplaced("no op returns these indices")


def _rows(apply: Apply, input: Tensor, dim: int, descending: bool, k: int | None = None) -> Tensor:
    if input.dim() == 0 or k == 0:
        raise NotReplaced("no entries to sort")
    rows = apply(Permutation(descending, k=k), input.movedim(int(dim), -1))
    return rows.movedim(-2, int(dim) % input.dim())
