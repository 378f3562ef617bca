"""Drawn indices as an op of their probabilities; the arguments are those of the torch call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from surrogates.core import Op
from surrogates.own_model.choice import REMEDIES, NotReplaced
from surrogates.own_model.elementwise import Apply


@dataclass(frozen=True)
class Multinomial(Op):
    """multinomial(w) = the one-hot row of an entry drawn with probability w_i / sum_j w_j.

    Shape (..., n) to the same. The value is torch's own draw. Straight-through has the derivative of the expectation
    w / sum_j w_j (Bengio, Leonard & Courville 2013, arXiv 1308.3432).
    """

    elementwise: ClassVar[bool] = False

    def hard(self, w: Tensor) -> Tensor:
        """The expectation, which the draw replaces."""
        return w / w.sum(-1, keepdim=True)

    def proxy(self, w: Tensor, T: Tensor | float) -> Tensor:
        """The expectation."""
        return self.hard(w)


def multinomial(
    apply: Apply, input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Tensor:
    """The expectation of each draw, the classes in a new last dimension.

    Raises NotReplaced for several draws without replacement, or weights without a dimension.
    """
    if input.dim() == 0:
        raise NotReplaced("a tensor without dimensions")
    if num_samples != 1 and not replacement:
        raise NotReplaced(f"draws without replacement have no op; write {REMEDIES['multinomial']}, which is replaced")
    return apply(Multinomial(), input).unsqueeze(-2)
