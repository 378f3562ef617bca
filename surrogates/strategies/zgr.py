"""Zero-temperature Gumbel-Rao."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from surrogates.core import Op, Strategy, graft
from surrogates.sampling.categorical import check_categorical, draw, multinomial_covariance, softmax, tangent
from surrogates.sampling.first_order import first_order


@dataclass(frozen=True)
class ZGR(Strategy):
    """D of law p = softmax(x), derivative (diag(p) - p p' + (D - p)(D - p)') / 2: the mean of ST's and DARN's.

    The limit T -> 0 of `gumbel_rao` over infinitely many samples (Shekhovtsov 2023, "Cold analysis of Rao-Blackwellized
    straight-through Gumbel-softmax gradient estimator"). It has no temperature.
    In the mean it is the trapezoid rule along the line between every two categories, exact for a quadratic f. Draw by
    draw it equals `reinmax` at T = 1.
    First order only: a second derivative raises RuntimeError.
    """

    soft_forward: ClassVar[bool] = True
    estimates: ClassVar[bool] = True

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        assert noise is not None
        logits, one_hot = draw(op, x[0], noise)
        p, t = softmax(logits.detach()), tangent(logits)
        darn = (one_hot - p) * ((one_hot - p) * t).sum(-1, keepdim=True)
        carrier = 0.5 * (multinomial_covariance(p, t) + darn)
        return graft(op.chosen(one_hot).to(x[0].dtype), first_order(op.chosen(carrier)))

    def check(self, op: Op) -> None:
        check_categorical(op, "zgr")

    def noisy(self, op: Op) -> bool:
        return True

    def noise_shape(self, op: Op, *x: Tensor) -> tuple[int, ...]:
        return tuple(op.logits(x[0]).shape)
