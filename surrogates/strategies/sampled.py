"""Straight-through from a sample, called ST in papers on stochastic units."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from surrogates.core import Op, graft
from surrogates.kernels import KernelName
from surrogates.sampling.perturbation import add_noise, check_one_input, standard_noise
from surrogates.strategies.tempered import Tempered, check_smooth, smooth_knobs, smooth_reading


@dataclass(frozen=True)
class Sampled(Tempered):
    """y = hard(x + T e) with the derivative of smooth(x, T), which is E[y] for elementwise ops, max and argmax.

    e has the law of `kernel` for elementwise ops, centred Gumbel for ops over a dim (Bengio, Leonard & Courville 2013,
    arXiv 1308.3432). At T = 1 argmax is drawn from softmax(x), and heaviside, under the logistic kernel, from
    sigmoid(x).
    The derivative of E[f(y)] is exact for an affine f. For other f it is biased, because f'(y) replaces differences of
    f.
    """

    kernel: KernelName | None = "logistic"
    soft_forward: ClassVar[bool] = True

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        assert noise is not None
        moved = add_noise(op, x[0].detach(), standard_noise(op, noise, self.kernel), T)
        return graft(op.hard(moved).to(x[0].dtype), smooth_reading(op, x[0], kernel=self.kernel, T=T))

    def check(self, op: Op) -> None:
        check_one_input(op, "sampled")
        check_smooth(op, self.kernel)

    def uses(self, op: Op) -> frozenset[str]:
        return smooth_knobs(op)

    def noisy(self, op: Op) -> bool:
        return True
