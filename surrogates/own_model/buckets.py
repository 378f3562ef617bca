"""Places among boundaries as one-hot rows, by the op compare; each function has the arguments of its torch call."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from surrogates.ops.compare import Compare
from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.elementwise import Apply


def bucketize(apply: Apply, input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """One-hot rows for the number of boundaries below x, or with `right` at most x."""
    return _rows(apply, input, boundaries, right)


def searchsorted(
    apply: Apply,
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """`bucketize` with the boundaries first; each row of x may have boundaries of its own."""
    if sorter is not None:
        raise NotReplaced("a sorter is not supported")
    boundaries = sorted_sequence.unsqueeze(-2) if isinstance(input, Tensor) else sorted_sequence
    return _rows(apply, input, boundaries, right or side == "right")


def _rows(apply: Apply, input: Any, boundaries: Tensor, right: bool) -> Tensor:
    """Class c is the part of the c-th comparison that the next one does not hold."""
    x = input.unsqueeze(-1) if isinstance(input, Tensor) else input
    passed = apply(Compare(">=" if right else ">"), x, boundaries)
    return F.pad(passed, (1, 0), value=1.0) - F.pad(passed, (0, 1))
