"""Ops that choose among categories, seen in one-hot coordinates: a draw, and the tensors that estimators are made of.

With theta the logits (choices along the last dim), p = softmax(theta) and D a one-hot vector of law p, the derivative
of E[f(D)] by theta is sum_k f(e_k) p_k (e_k - p). An estimator of it is a matrix times f'(D); here a matrix J is given
by a function of theta whose derivative it is at this theta.
"""

from __future__ import annotations

import torch
from torch import Tensor

from surrogates.core import EmptyCell, Op
from surrogates.noise import gumbel
from surrogates.ops.argmax import ArgMax

_ONE_HOT = ArgMax(dim=-1)


def draw(op: Op, x: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """The logits in the precision of the uniforms p, and D = one_hot(argmax(theta + g)), g Gumbel; shapes (..., n)."""
    logits = op.logits(x.to(p.dtype))
    return logits, _ONE_HOT.hard(logits + gumbel(p))


def softmax(logits: Tensor, T: Tensor | float = 1.0) -> Tensor:
    """softmax(theta / T), safe for masks of -inf; a row whose maximum is infinite is one-hot, with derivative 0."""
    return _ONE_HOT.smooth(logits, None, T)


def tangent(logits: Tensor) -> Tensor:
    """0 with the derivative of theta, and with none where theta is not finite."""
    return torch.where(logits.detach().isfinite(), logits - logits.detach(), 0)


def multinomial_covariance(q: Tensor, t: Tensor) -> Tensor:
    """(diag(q) - q q') t: as a function of theta, t its tangent, it has the softmax's derivative where it equals q."""
    return q * (t - (q * t).sum(-1, keepdim=True))


def check_categorical(op: Op, name: str) -> None:
    """Raises EmptyCell for an op that does not choose among categories."""
    if not op.declares("logits"):
        raise EmptyCell(f"{name} needs an op that picks one of several categories by logits, not {type(op).__name__}")
