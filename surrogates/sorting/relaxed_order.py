"""The weights P_ij of a relaxed order: softmax over j of logits_ij / T, for logits that a law makes of a few vectors.

Autograd would keep several n x n tensors a row and write the derivative of each to memory. A large batch is computed in
cache-sized pieces instead, forward and backward, and only the weights are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.float32 import autocasts
from surrogates.known import at_hand, dual

PIECE = 2**17  # weights in a piece, for each thread


class Law(NamedTuple):
    """Logits (..., k, n), at most 0, from vectors: the first (..., k) by ranks, the others (..., n) by entries."""

    logits: Callable[..., Tensor]  # of the vectors, before the division by T
    slopes: Callable[..., tuple[Tensor, ...]]  # of the derivative by the logits and the vectors


def weights(law: Law, T: Tensor | float, *vectors: Tensor) -> Tensor:
    """P (..., k, n).

    Autograd differentiates a batch of one piece, and what the Function does not support.
    """
    rows, width = vectors[0].shape[:-1].numel(), vectors[0].shape[-1] * vectors[1].shape[-1]
    varying = isinstance(T, Tensor) and (T.requires_grad or T.dim() > 0 or dual(T))
    if varying or not all(map(at_hand, vectors)) or dual(*vectors) or rows <= _rows_a_piece(width):
        return softmax(law.logits(*vectors) / T)
    found: Tensor = _Weights.apply(law, float(T), *vectors)
    return found


def softmax(logits: Tensor) -> Tensor:
    """softmax over the last dim, for logits with maximum 0; a weight below the dtype's normal range is 0.

    A CPU is many times slower on such numbers. A weight up to n times above that range may be 0 too.
    """
    lowest = math.log(torch.finfo(logits.dtype).tiny * max(1, logits.shape[-1]))
    return torch.softmax(F.threshold(logits, lowest, -math.inf), -1)


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b; elementwise under autocast, as autocast would round the factors."""
    if autocasts(a):
        return (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)
    return a @ b


class _Weights(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, law: Law, T: float, *vectors: Tensor) -> Tensor:
        found = vectors[0].new_empty(*vectors[0].shape, vectors[1].shape[-1])
        for weight, *piece in _pieces(found, *vectors):
            weight.copy_(softmax(law.logits(*piece).div_(T)))
        ctx.law, ctx.T = law, T
        ctx.save_for_backward(found, *vectors)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The derivative by the logits is P_ij (g_ij - sum_k P_ik g_ik) / T."""
        found, *vectors = ctx.saved_tensors
        parts = []
        for weight, incoming, *piece in _pieces(found, gradient, *vectors):
            slope = weight * incoming
            slope.sub_(weight * slope.sum(-1, keepdim=True))
            parts.append(ctx.law.slopes(slope, *piece))
        columns = zip(vectors, zip(*parts, strict=True), strict=True)
        return None, None, *(torch.cat(column).div(ctx.T).view_as(vector) for vector, column in columns)


def _rows_a_piece(width: int) -> int:
    return max(1, torch.get_num_threads() * PIECE // max(1, width))


def _pieces(matrices: Tensor, *others: Tensor) -> zip[tuple[Tensor, ...]]:
    """Slices of matrices (..., k, n) and of tensors with the same leading dimensions, flattened to one."""
    lead = matrices.dim() - 2
    step = _rows_a_piece(matrices.shape[-2] * matrices.shape[-1])
    flat = [tensor.reshape(-1, *tensor.shape[lead:]) for tensor in (matrices, *others)]
    return zip(*(torch.split(tensor, step) for tensor in flat), strict=True)
