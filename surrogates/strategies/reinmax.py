"""ReinMax: straight-through of second order for categorical choices."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from surrogates.core import Op, graft
from surrogates.sampling.categorical import check_categorical, draw, multinomial_covariance, softmax, tangent
from surrogates.sampling.first_order import first_order
from surrogates.strategies.tempered import Tempered


@dataclass(frozen=True)
class ReinMax(Tempered):
    """D of law p = softmax(x), derivative 2 J(q) - J(p) / 2, q = (softmax(x / T) + D) / 2, J(q) = diag(q) - q q'.

    Heun's rule where straight-through is Euler's (Liu et al. 2023, arXiv 2304.08612). At T = 1 the derivative of f is
    exact in the mean for a quadratic f. T > 1 lowers the variance and adds bias.
    First order only: for three or more categories the derivative is not that of any function, so a second derivative
    raises RuntimeError.
    Raises ValueError if a temperature is below 1, which adds both bias and variance (the authors' code refuses it too).
    """

    soft_forward: ClassVar[bool] = True
    estimates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("temperature", "final_temperature"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} of reinmax must be at least 1, got {value}")

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        assert noise is not None
        logits, one_hot = draw(op, x[0], noise)
        p, t = softmax(logits.detach()), tangent(logits)
        q = 0.5 * (softmax(logits.detach(), T) + one_hot)
        carrier = 2 * multinomial_covariance(q, t) - 0.5 * multinomial_covariance(p, t)
        return graft(op.chosen(one_hot).to(x[0].dtype), first_order(op.chosen(carrier)))

    def check(self, op: Op) -> None:
        check_categorical(op, "reinmax")

    def uses(self, op: Op) -> frozenset[str]:
        return frozenset({"temperature"})

    def noisy(self, op: Op) -> bool:
        return True

    def noise_shape(self, op: Op, *x: Tensor) -> tuple[int, ...]:
        return tuple(op.logits(x[0]).shape)
