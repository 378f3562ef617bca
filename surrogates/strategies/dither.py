"""Stochastic rounding."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from surrogates.core import Op, Strategy, graft
from surrogates.strategies.staircase import check_staircase


@dataclass(frozen=True)
class Dither(Strategy):
    """y = hard(x + step (u - 1/2)), u uniform on (0, 1), with the derivative of the op's own proxy, the identity.

    Stochastic rounding (Gupta et al. 2015, arXiv 1502.02551): y is one of the two neighbouring values. Their
    probabilities make the mean linear: E[round] = x, E[floor] = x - step / 2, E[quantize] = clamp(x, low, high).
    The proxy, x or x clipped, has the derivative of that mean; floor and ceil with bounds have the derivative 1 outside
    them too. The derivative of E[f(y)] is exact for an affine f.
    """

    soft_forward: ClassVar[bool] = True

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        assert noise is not None
        assert op.grid is not None
        moved = x[0].detach().to(noise.dtype) + op.grid * (noise - 0.5)
        return graft(op.hard(moved).to(x[0].dtype), op.proxy(*x, T=T))

    def check(self, op: Op) -> None:
        check_staircase(op, "dither")

    def noisy(self, op: Op) -> bool:
        return True
