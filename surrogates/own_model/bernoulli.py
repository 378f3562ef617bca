"""Draws of 0 and 1 as an op of their probability; the arguments are those of the torch call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from surrogates.core import Op
from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.elementwise import Apply
from surrogates.own_model.tracking import is_recorded


@dataclass(frozen=True)
class Bernoulli(Op):
    """bernoulli(p) = 1 with probability p, else 0; the value is torch's own draw.

    Elementwise, any shape. Straight-through has the derivative of the expectation p, which is 1 (Bengio, Leonard &
    Courville 2013, arXiv 1308.3432).
    """

    def hard(self, p: Tensor) -> Tensor:
        """The expectation p, which the draw replaces."""
        return p

    def proxy(self, p: Tensor, T: Tensor | float) -> Tensor:
        """The expectation p."""
        return p


def bernoulli(apply: Apply, input: Tensor, p: Any = None, *, generator: Any = None) -> Tensor:
    """The expectation: `p`, or the input if there is no `p`.

    Raises NotReplaced if no derivative by it is recorded.
    """
    probability = input if p is None else p
    if not isinstance(probability, Tensor) or not is_recorded(probability):
        raise NotReplaced("no derivative by its probability is recorded")
    return apply(Bernoulli(), probability)
