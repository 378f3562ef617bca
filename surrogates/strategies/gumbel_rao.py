"""Gumbel-Rao: straight-through Gumbel-softmax, averaged over the noise that leads to the same choice."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from surrogates.core import Op, graft
from surrogates.sampling.categorical import check_categorical, draw, softmax, tangent
from surrogates.strategies.samples import Averaged


@dataclass(frozen=True)
class GumbelRao(Averaged):
    """D of law softmax(x) with the derivative of mean_k softmax((x + g_k) / T), g_k Gumbel given D, held as numbers.

    k = 1 .. `samples` counts draws of the noise, given that the noise leads to D (Paulus, Maddison & Krause 2021, arXiv
    2010.04838). In the mean the derivative, of every order, is that of `gumbel`, with less variance.
    With theta the logits, Z = sum exp(theta) and E_j standard exponential, theta + g is log Z - log E_i at the chosen
    i, and -log(E_j exp(-theta_j) + E_i / Z) elsewhere.
    """

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        assert noise is not None
        logits, one_hot = draw(op, x[0], noise[0])
        moved = draw_given(logits.detach(), one_hot, noise[1:]) + tangent(logits)
        return graft(op.chosen(one_hot).to(x[0].dtype), op.chosen(softmax(moved, T).mean(0)))

    def check(self, op: Op) -> None:
        check_categorical(op, "gumbel_rao")

    def uses(self, op: Op) -> frozenset[str]:
        return frozenset({"temperature"})

    def noise_shape(self, op: Op, *x: Tensor) -> tuple[int, ...]:
        return (1 + self.samples, *op.logits(x[0]).shape)


def draw_given(logits: Tensor, one_hot: Tensor, p: Tensor) -> Tensor:
    """Draws theta + g, given that its largest entry is the chosen one; p are uniforms (samples, ..., n)."""
    top = logits.amax(-1, keepdim=True)
    rates = torch.exp(logits - torch.where(top.isinf(), 0, top))
    waiting = -torch.log(p)
    first = (one_hot * waiting).sum(-1, keepdim=True) / rates.sum(-1, keepdim=True)
    moved = -torch.log(torch.where(one_hot > 0, first, waiting / rates + first))
    return torch.where(top.isinf(), logits, moved)
