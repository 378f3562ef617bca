"""The loss of R models at once: the mean over each one's samples, of which the sum is differentiated."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def traced(logits: Tensor, y: Tensor, replicas: int) -> Tensor:
    """log sum_j exp(l_j) - l_y, the mean over each replica's samples (R,); torch's takes 3 x as long for 10 classes.

    Made of operations that a compiler fuses with what is around them.
    """
    shifted = logits - logits.detach().amax(1, keepdim=True)
    losses = shifted.exp().sum(1).log() - shifted.gather(1, y.unsqueeze(1)).squeeze(1)
    return losses.view(replicas, -1).mean(1)


class CrossEntropy(torch.autograd.Function):
    """(logits, y, replicas) to the sum of the same losses, and the losses, which have no derivative of their own.

    The derivative (softmax - one-hot) / B is computed with them. From a sum it can be taken without torch's import of
    symbolic shapes, which a gradient that is given by hand costs each process once: half a second.
    """

    @staticmethod
    @torch.no_grad()
    def forward(ctx: Any, logits: Tensor, y: Tensor, replicas: int) -> tuple[Tensor, Tensor]:
        """() and (R,)."""
        shifted = logits - logits.amax(1, keepdim=True)
        right = y.unsqueeze(1)
        chosen = shifted.gather(1, right).squeeze(1)
        powers = shifted.exp_()
        total = powers.sum(1, keepdim=True)
        losses = (total.squeeze(1).log() - chosen).view(replicas, -1).mean(1)
        share = replicas / len(y)
        ctx.gradient = powers.mul_(share / total).scatter_add_(1, right, powers.new_full((), -share).expand_as(right))
        ctx.mark_non_differentiable(losses)
        return losses.sum(), losses

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Once."""
        return ctx.gradient.mul_(gradients[0]), None, None
