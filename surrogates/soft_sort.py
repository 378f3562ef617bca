"""SoftSort's weights for finite rows on a CPU, and products with them: one n x n tensor a row is kept.

What else is of that size is made in pieces that stay in the cache. Autograd would keep the signs of the distances
beside the weights, and write every n x n derivative out to memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surrogates.core import without_autocast
from surrogates.known import dual

PIECE = 2**16  # numbers; a row with more is a piece by itself


def soft_sort_weights(rows: Tensor, order: Tensor, T: Tensor | float) -> Tensor:
    """P = softmax over j of -|x_o(i) - x_j| / T for finite rows x (..., n) and an order o (..., k), (..., k, n)."""
    if _by_torch(rows, T):
        return _weights(rows.gather(-1, order), rows, T)
    weights: Tensor = _SoftSort.apply(*_flattened(rows, order, T), None, False)
    return weights.reshape(*order.shape, rows.shape[-1])


def soft_sort_product(rows: Tensor, order: Tensor, T: Tensor | float, factor: Tensor, transposed: bool) -> Tensor:
    """P factor, (..., k, c) for a factor (..., n, c), or P' factor, (..., n, c) for a factor (..., k, c)."""
    if _by_torch(rows, T) or dual(factor):
        return _product(_weights(rows.gather(-1, order), rows, T), factor, transposed)
    flat = factor.expand(*rows.shape[:-1], *factor.shape[-2:]).reshape(-1, *factor.shape[-2:])
    product: Tensor = _SoftSort.apply(*_flattened(rows, order, T), flat, transposed)
    return product.reshape(*rows.shape[:-1], *product.shape[-2:])


def _by_torch(rows: Tensor, T: Tensor | float) -> bool:
    return not rows.numel() or dual(rows) or (isinstance(T, Tensor) and (T.requires_grad or T.dim() > 0))


def _flattened(rows: Tensor, order: Tensor, T: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
    temperature = torch.as_tensor(T, dtype=rows.dtype)
    return rows.reshape(-1, rows.shape[-1]), order.reshape(-1, order.shape[-1]), temperature


def _weights(values: Tensor, rows: Tensor, T: Tensor | float, out: Tensor | None = None) -> Tensor:
    return torch.softmax((values.unsqueeze(-1) - rows.unsqueeze(-2)).abs_().div_(-T), -1, out=out)


class _SoftSort(torch.autograd.Function):
    """The weights of rows (b, n) and an order (b, k), or their product with a factor; T is a constant."""

    @staticmethod
    @without_autocast
    def forward(ctx: Any, rows: Tensor, order: Tensor, T: Tensor, factor: Tensor | None, transposed: bool) -> Tensor:
        values = rows.gather(-1, order)
        weights = rows.new_empty(*order.shape, rows.shape[-1])
        for at in _pieces(weights):
            _weights(values[at], rows[at], T, out=weights[at])
        ctx.transposed = transposed
        ctx.save_for_backward(rows, order, T, factor, weights)
        return _product(weights, factor, transposed)

    @staticmethod
    @without_autocast
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, order, T, factor, weights = ctx.saved_tensors
        by_rows = by_factor = None
        if torch.is_grad_enabled():  # the derivatives get a graph of their own
            again = _product(_weights(rows.gather(-1, order), rows, T), factor, ctx.transposed)
            if ctx.needs_input_grad[0]:
                (by_rows,) = torch.autograd.grad(again, rows, gradient, create_graph=True)
            if ctx.needs_input_grad[3]:
                (by_factor,) = torch.autograd.grad(again, factor, gradient, create_graph=True)
            return by_rows, None, None, by_factor, None
        if ctx.needs_input_grad[3]:
            by_factor = _product(weights, gradient, not ctx.transposed)
        if ctx.needs_input_grad[0]:
            by_rows = _by_rows(rows, order, weights, gradient, factor, ctx.transposed) / T
        return by_rows, None, None, by_factor, None


def _product(weights: Tensor, factor: Tensor | None, transposed: bool) -> Tensor:
    return weights if factor is None else (weights.mT if transposed else weights) @ factor


def _by_rows(
    rows: Tensor, order: Tensor, weights: Tensor, gradient: Tensor, factor: Tensor | None, transposed: bool
) -> Tensor:
    """T times the derivative."""
    values = rows.gather(-1, order)
    by_value, by_entry = torch.empty_like(values), torch.empty_like(rows)
    for at in _pieces(weights):
        by_weight = _by_weight(gradient[at], None if factor is None else factor[at], transposed)
        slope = torch._softmax_backward_data(by_weight, weights[at], -1, weights.dtype)
        slope.mul_((values[at].unsqueeze(-1) - rows[at].unsqueeze(-2)).sign_())
        torch.sum(slope, -1, out=by_value[at])
        torch.sum(slope, -2, out=by_entry[at])
    return by_entry.scatter_add_(-1, order, by_value.neg_())


def _by_weight(gradient: Tensor, factor: Tensor | None, transposed: bool) -> Tensor:
    """The incoming gradient of the weights."""
    if factor is None:
        return gradient
    return factor @ gradient.mT if transposed else gradient @ factor.mT


def _pieces(weights: Tensor) -> list[slice]:
    """Slices of the first dimension."""
    step = max(1, PIECE // max(1, weights[:1].numel()))
    return [slice(start, start + step) for start in range(0, len(weights), step)]
