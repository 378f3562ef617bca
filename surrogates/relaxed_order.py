"""Relaxed permutations of finite rows on a CPU, and products with them: one n x n tensor a row is kept.

What else is of that size is made in pieces that stay in the cache. Autograd would keep the signs of the distances
beside the weights, and write every n x n derivative out to memory.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.core import without_autocast
from surrogates.known import dual

PIECE = 2**16  # numbers; a row with more is a piece by itself


class Law(Protocol):
    """The logits of a relaxed permutation of finite rows x (..., n), with a place a rank asked for (..., k)."""

    def places(self, rows: Tensor) -> Tensor:
        """What the logits of every rank need to know of it, (..., n), whole numbers."""

    def numbers(self, k: int, n: int) -> int:
        """How many numbers a row its largest tensors have."""

    def logits(self, rows: Tensor, places: Tensor, T: Tensor | float) -> Tensor:
        """(..., k, n), by torch."""

    def by_rows(self, rows: Tensor, places: Tensor, slope: Tensor) -> Tensor:
        """T times the derivative by the rows, for that by the logits, whose memory may be used."""


def softmax(logits: Tensor, out: Tensor | None = None) -> Tensor:
    """Over the last dim, for logits with the maximum 0; a weight below the dtype's normal range is 0.

    A CPU takes many times as long for such numbers, and the weights of sorted rows are full of them.
    """
    lowest = math.log(torch.finfo(logits.dtype).tiny)
    return torch.softmax(F.threshold(logits, lowest, -math.inf), -1, out=out)


def relaxed_weights(law: Law, rows: Tensor, places: Tensor, T: Tensor | float) -> Tensor:
    """P = softmax over j of the logits, (..., k, n)."""
    if _by_torch(rows, T):
        return softmax(law.logits(rows, places, T))
    weights: Tensor = _Relaxed.apply(*_flattened(rows, places, T), None, False, law)
    return weights.reshape(*places.shape, rows.shape[-1])


def relaxed_product(
    law: Law, rows: Tensor, places: Tensor, T: Tensor | float, factor: Tensor, transposed: bool
) -> Tensor:
    """P factor, (..., k, c) for a factor (..., n, c), or P' factor, (..., n, c) for a factor (..., k, c)."""
    if _by_torch(rows, T) or dual(factor):
        return _product(softmax(law.logits(rows, places, T)), factor, transposed)
    flat = factor.expand(*rows.shape[:-1], *factor.shape[-2:]).reshape(-1, *factor.shape[-2:])
    product: Tensor = _Relaxed.apply(*_flattened(rows, places, T), flat, transposed, law)
    return product.reshape(*rows.shape[:-1], *product.shape[-2:])


def _by_torch(rows: Tensor, T: Tensor | float) -> bool:
    return not rows.numel() or dual(rows) or (isinstance(T, Tensor) and (T.requires_grad or T.dim() > 0))


def _flattened(rows: Tensor, places: Tensor, T: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
    temperature = torch.as_tensor(T, dtype=rows.dtype)
    return rows.reshape(-1, rows.shape[-1]), places.reshape(-1, places.shape[-1]), temperature


class _Relaxed(torch.autograd.Function):
    """The weights of rows (b, n) with places (b, k), or their product with a factor; T is a constant."""

    @staticmethod
    @without_autocast
    def forward(
        ctx: Any, rows: Tensor, places: Tensor, T: Tensor, factor: Tensor | None, transposed: bool, law: Law
    ) -> Tensor:
        weights, products = rows.new_empty(*places.shape, rows.shape[-1]), []
        for at in _pieces(law, weights):
            softmax(law.logits(rows[at], places[at], T), out=weights[at])
            if factor is not None:
                products.append(_product(weights[at], factor[at], transposed))
        ctx.transposed, ctx.law = transposed, law
        ctx.save_for_backward(rows, places, T, factor, weights)
        return weights if factor is None else torch.cat(products)

    @staticmethod
    @without_autocast
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, places, T, factor, weights = ctx.saved_tensors
        by_rows = by_factor = None
        if torch.is_grad_enabled():  # the derivatives get a graph of their own
            again = _product(softmax(ctx.law.logits(rows, places, T)), factor, ctx.transposed)
            if ctx.needs_input_grad[0]:
                (by_rows,) = torch.autograd.grad(again, rows, gradient, create_graph=True)
            if ctx.needs_input_grad[3]:
                (by_factor,) = torch.autograd.grad(again, factor, gradient, create_graph=True)
            return by_rows, None, None, by_factor, None, None
        by_row, by_factors = torch.empty_like(rows), []
        for at in _pieces(ctx.law, weights):
            by_weight = gradient[at] if factor is None else _by_weight(gradient[at], factor[at], ctx.transposed)
            slope = torch._softmax_backward_data(by_weight, weights[at], -1, weights.dtype)
            torch.div(ctx.law.by_rows(rows[at], places[at], slope), T, out=by_row[at])
            if ctx.needs_input_grad[3]:
                by_factors.append(_product(weights[at], gradient[at], not ctx.transposed))
        return by_row, None, None, torch.cat(by_factors) if by_factors else None, None, None


def _product(weights: Tensor, factor: Tensor | None, transposed: bool) -> Tensor:
    if factor is None:
        return weights
    return (factor.mT @ weights).mT if transposed else weights @ factor  # weights.mT @ factor takes 5 times as long


def _by_weight(gradient: Tensor, factor: Tensor, transposed: bool) -> Tensor:
    """The incoming gradient of the weights."""
    return factor @ gradient.mT if transposed else gradient @ factor.mT


def _pieces(law: Law, weights: Tensor) -> list[slice]:
    """Slices of the first dimension."""
    step = max(1, PIECE // max(1, law.numbers(*weights.shape[1:])))
    return [slice(start, start + step) for start in range(0, len(weights), step)]
