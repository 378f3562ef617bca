"""Ops that choose among categories, in one-hot coordinates: a draw, and the tensors that estimators use.

With theta the logits (choices along the last dim), p = softmax(theta) and D a one-hot vector of law p, the derivative
of E[f(D)] by theta is sum_k f(e_k) p_k (e_k - p). An estimator of it is a matrix J times f'(D). Here J is given by a
function of theta whose derivative at this theta is J.
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
    """softmax(theta / T); entries may be -inf (masks); a row of infinite maximum is one-hot, with derivative 0."""
    return _ONE_HOT.smooth(logits, None, T)


def tangent(logits: Tensor) -> Tensor:
    """0 with the derivative of theta; without a derivative where theta is not finite."""
    return torch.where(logits.detach().isfinite(), logits - logits.detach(), 0)


def multinomial_covariance(q: Tensor, t: Tensor) -> Tensor:
    """(diag(q) - q q') t; with t the tangent of theta and q = softmax(theta) it has the softmax's derivative."""
    return q * (t - (q * t).sum(-1, keepdim=True))


def check_categorical(op: Op, name: str) -> None:
    """Raises EmptyCell if the op does not choose among categories."""
    if not op.declares("logits"):
        raise EmptyCell(f"{name} needs an op that picks one of several categories; {type(op).__name__} does not")
