"""Gumbel-softmax, soft and straight-through."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from surrogates.core import Op, graft
from surrogates.sampling.perturbation import add_noise, check_one_input, standard_noise
from surrogates.strategies.tempered import Tempered, check_smooth, smooth_reading

NOISE = "logistic"  # the difference of two Gumbel variables


@dataclass(frozen=True)
class Gumbel(Tempered):
    """y = hard(x + g) with the derivative of s = smooth(x + g, T), or s itself with `value="soft"`; g of scale 1.

    g is Gumbel noise for ops over a dim and logistic noise (the difference of two Gumbel variables) for elementwise
    ops. So argmax is drawn from softmax(x), heaviside from sigmoid(x); T only relaxes (Jang, Gu & Poole 2017, arXiv
    1611.01144; Maddison, Mnih & Teh 2017, arXiv 1611.00712).
    Biased for every T > 0. As T -> 0 the bias vanishes and the variance grows without bound. For the noise drawn, the
    derivatives of every order are those of s.
    """

    value: Literal["hard", "soft"] = "hard"
    soft_forward: ClassVar[bool] = True

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        assert noise is not None
        moved = add_noise(op, x[0], standard_noise(op, noise, NOISE), 1.0)
        soft = smooth_reading(op, moved, kernel=NOISE, T=T).to(x[0].dtype)
        return soft if self.value == "soft" else graft(op.hard(moved.detach()).to(soft.dtype), soft)

    def check(self, op: Op) -> None:
        check_one_input(op, "gumbel")
        check_smooth(op, NOISE)

    def uses(self, op: Op) -> frozenset[str]:
        return frozenset({"temperature"})

    def noisy(self, op: Op) -> bool:
        return True
