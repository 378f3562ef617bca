"""Conversions to integers and bools as floating numbers; `apply(op, *x)` is the op on x under the chosen strategy."""

from __future__ import annotations

from torch import Tensor

from surrogates.ops.trunc import Trunc
from surrogates.own_model.elementwise import Apply
from surrogates.own_model.reading import not_equal


def integers(apply: Apply, x: Tensor) -> Tensor:
    """trunc(x)."""
    return apply(Trunc(), x)


def bools(apply: Apply, x: Tensor) -> Tensor:
    """1 - (x == 0)."""
    return not_equal(apply, x, 0)
