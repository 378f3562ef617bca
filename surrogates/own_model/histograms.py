"""Counts in equal bins by the op histogram; each function has the arguments of the torch call of its name."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from surrogates.known import is_traced
from surrogates.ops.histogram import Histogram
from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.elementwise import Apply


def histc(apply: Apply, input: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Tensor:
    """The counts between min and max; if these are equal, between the smallest and the largest entry."""
    return _counts(apply, input, bins, (min, max) if min != max else None, 1.0)


def histogram(
    apply: Apply, input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Tensor:
    """The counts in the range, or between the smallest and the largest entry if there is none.

    Raises NotReplaced for bins as a tensor, `weight` and `density`.
    """
    if isinstance(bins, Tensor) or weight is not None or density:
        raise NotReplaced("bins as a tensor, weight and density are not supported")
    return _counts(apply, input, bins, range, 0.5)


def _counts(apply: Apply, input: Tensor, bins: int, range: Any, room: float) -> Tensor:
    """The counts. Entries outside a given range count in an outer bin on each side, which is dropped.

    The smallest and the largest entry are constants. A range of width 0 is extended by `room` on both sides.
    Raises NotReplaced if the range of the entries cannot be read, or the op refuses the range or the number of bins.
    """
    x, bins = input.flatten(), int(bins)
    if range is None and is_traced():
        raise NotReplaced("the range of the entries cannot be read")
    low, high = map(float, range or (x.detach().aminmax() if x.numel() else (0, 0)))
    if low == high:
        low, high = low - room, high + room
    outer = (high - low) / bins if range else 0
    try:
        op = Histogram(bins + 2 * bool(range), low - outer, high + outer)
    except ValueError as error:
        raise NotReplaced(str(error)) from error
    counts = apply(op, x)
    return counts[1:-1] if range else counts
