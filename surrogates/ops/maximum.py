"""The larger of two tensors."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, rewriting
from surrogates.kernels import KERNELS, Kernel


@dataclass(frozen=True)
class Maximum(Op):
    """maximum(a, b) = a if a > b, else b.

    Two tensors of one shape (...), elementwise. NaN in either gives NaN.
    Kink where a = b: `minimum_norm` shares the derivative (1/2, 1/2); `first` gives it to a.
    proxy and the default smooth: T logsumexp((a, b) / T).
    smooth: E[max(a + T e, b)] = b + T R((a - b) / T) = max(a, b) + T R(-|a - b| / T), R the kernel's ramp. The logistic
    kernel gives the logsumexp.
    rewrite: a + relu(b - a), exact up to the rounding of the larger magnitude; a tie goes to a.
    Form `abs`: (a + b + |a - b|) / 2, exact likewise; a tie is shared.
    """

    needs_mean: ClassVar[bool] = True
    keeps_shape: ClassVar[bool] = False
    tempered_proxy: ClassVar[bool] = True
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm", "first")

    def hard(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.maximum(a, b)

    def subgradient(self, a: Tensor, b: Tensor, rule: str) -> Tensor:
        if rule == "first":
            return torch.where(a >= b, a, b)
        return torch.where(a > b, a, torch.where(a < b, b, 0.5 * a + 0.5 * b))

    def proxy(self, a: Tensor, b: Tensor, T: Tensor | float) -> Tensor:
        return self.smooth(a, b, KERNELS["logistic"], T)

    def smooth(self, a: Tensor, b: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        first = a >= b
        top = torch.where(first, a, b)
        return top + T * kernel.ramp(minus_distance(a, b, first, top) / T)

    def slopes(self, a: Tensor, b: Tensor, kernel: Kernel, T: Tensor) -> tuple[Tensor, Tensor]:
        share = torch.nan_to_num(kernel.cdf((a - b) / T))  # inf - inf is NaN
        return share, 1 - share

    @rewriting("exact")
    def rewrite(self, a: Tensor, b: Tensor, noise: None = None) -> Tensor:
        return _where_finite(a + torch.relu(b - a), a, b)

    @rewriting("exact")
    def rewrite_abs(self, a: Tensor, b: Tensor, noise: None = None) -> Tensor:
        """(a + b + |a - b|) / 2."""
        return _where_finite(0.5 * (a + b + torch.abs(a - b)), a, b)


def minus_distance(a: Tensor, b: Tensor, first: Tensor, value: Tensor) -> Tensor:
    """-|a - b|, `first` being a - b >= 0; 0 where the op's value is infinite, as a - b may be NaN there."""
    return torch.where(value.isinf(), 0, (a - b) * (1 - 2 * first.to(a.dtype)))


def _where_finite(rewritten: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The rewritten value; the hard one where the rewrite would compute inf - inf."""
    return torch.where(a.isinf() | b.isinf(), torch.maximum(a, b), rewritten)
