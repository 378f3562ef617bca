"""Relaxed permutations of finite rows on a CPU, and products with them: one n x n tensor a row is kept.

What else is of that size is made in pieces of which each thread's share stays in its cache. Autograd would keep the
signs of the distances beside the weights, and write every n x n derivative out to memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.core import without_autocast
from surrogates.known import dual

PIECE = 2**17  # numbers of a piece for each thread; a row with more is a piece by itself
SMALL = 2**14  # numbers; so few cost less by the functions of torch, each with its own derivative


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

    def by_rows_of_product(self, rows: Tensor, places: Tensor, weights: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """The same for weights_ij sum_r left_ri right_rj by the logits: left (..., r, k), right (..., r, n)."""
        return self.by_rows(rows, places, (left.mT @ right).mul_(weights))


def softmax(logits: Tensor, out: Tensor | None = None) -> Tensor:
    """Over the last dim, n logits with the maximum 0, whose memory is used if there is an `out`.

    A weight below the dtype's normal range is 0, and so may one be that is up to n times above it, as a row's sum is.
    A CPU takes many times as long for such numbers, and the weights of sorted rows are full of them.
    """
    lowest = math.log(torch.finfo(logits.dtype).tiny * max(1, logits.shape[-1]))
    return torch.softmax(F.threshold(logits, lowest, -math.inf, inplace=out is not None), -1, out=out)


def relaxed_weights(law: Law, rows: Tensor, places: Tensor, T: Tensor | float) -> Tensor:
    """P = softmax over j of the logits, (..., k, n)."""
    if _by_torch(law, rows, places, T):
        return softmax(law.logits(rows, places, T))
    weights: Tensor = _RelaxedWeights.apply(rows, places, float(T), law)
    return weights


def relaxed_product(law: Law, rows: Tensor, places: Tensor, T: Tensor | float, factor: Tensor | None = None) -> Tensor:
    """P x, (..., k), or factor P, (..., c, n), for constants (c, k)."""
    if _by_torch(law, rows, places, T):
        return _product(softmax(law.logits(rows, places, T)), rows, factor)
    product: Tensor = _RelaxedProduct.apply(rows, places, factor, float(T), law)
    return product


def small(rows: Tensor, numbers: int) -> bool:
    """Whether rows with so many numbers each are few numbers together, that autocast would leave as they are."""
    return rows.shape[:-1].numel() * numbers <= SMALL and not torch.is_autocast_enabled(rows.device.type)


def _by_torch(law: Law, rows: Tensor, places: Tensor, T: Tensor | float) -> bool:
    if not rows.numel() or small(rows, law.numbers(places.shape[-1], rows.shape[-1])) or dual(rows):
        return True
    return isinstance(T, Tensor) and (T.requires_grad or T.dim() > 0 or dual(T))


class _RelaxedWeights(torch.autograd.Function):
    """For rows (..., n) with places (..., k); T is a constant."""

    @staticmethod
    @without_autocast
    def forward(ctx: Any, rows: Tensor, places: Tensor, T: float, law: Law) -> Tensor:
        weights = rows.new_empty(*places.shape, rows.shape[-1])
        for row, place, weight in _pieces(law, rows, places, weights):
            softmax(law.logits(row, place, T), out=weight)
        ctx.T, ctx.law = T, law
        ctx.save_for_backward(rows, places, weights)
        return weights

    @staticmethod
    @without_autocast
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, places, weights = ctx.saved_tensors
        if torch.is_grad_enabled():  # the derivative gets a graph of its own
            again = softmax(ctx.law.logits(rows, places, ctx.T))
            return *torch.autograd.grad(again, rows, gradient, create_graph=True), None, None, None
        by_rows = torch.empty_like(rows)
        for row, place, weight, incoming, out in _pieces(ctx.law, rows, places, weights, gradient, by_rows):
            slope = torch._softmax_backward_data(incoming, weight, -1, weight.dtype)
            torch.div(ctx.law.by_rows(row, place, slope), ctx.T, out=out)
        return by_rows, None, None, None


class _RelaxedProduct(torch.autograd.Function):
    """The same weights' product with the rows, or a factor with theirs."""

    @staticmethod
    @without_autocast
    def forward(ctx: Any, rows: Tensor, places: Tensor, factor: Tensor | None, T: float, law: Law) -> Tensor:
        weights = rows.new_empty(*places.shape, rows.shape[-1])
        product = rows.new_empty(places.shape if factor is None else (*rows.shape[:-1], len(factor), rows.shape[-1]))
        for row, place, weight, out in _pieces(law, rows, places, weights, product):
            softmax(law.logits(row, place, T), out=weight)
            out.copy_(_product(weight, row, factor))
        ctx.T, ctx.law = T, law
        ctx.save_for_backward(rows, places, factor, weights, product)
        return product

    @staticmethod
    @without_autocast
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """By the logits it is P_ij (M_ij - sum_k P_ik M_ik), M by the weights: both made of few vectors."""
        rows, places, factor, weights, product = ctx.saved_tensors
        if torch.is_grad_enabled():  # the derivative gets a graph of its own
            again = _product(softmax(ctx.law.logits(rows, places, ctx.T)), rows, factor)
            return *torch.autograd.grad(again, rows, gradient, create_graph=True), None, None, None, None
        by_rows = torch.empty_like(rows)
        for row, place, weight, value, incoming, out in _pieces(
            ctx.law, rows, places, weights, product, gradient, by_rows
        ):
            if factor is None:
                left = torch.stack([incoming, -incoming * value], -2)
                right = torch.stack([row, torch.ones_like(row)], -2)
            else:
                mean = (factor * (incoming @ weight.mT)).sum(-2, keepdim=True)
                left = torch.cat([factor.expand(*mean.shape[:-2], -1, -1), -mean], -2)
                right = torch.cat([incoming, torch.ones_like(incoming[..., :1, :])], -2)
            torch.div(ctx.law.by_rows_of_product(row, place, weight, left, right), ctx.T, out=out)
            if factor is None:
                out += (incoming.unsqueeze(-2) @ weight).squeeze(-2)
        return by_rows, None, None, None, None


def _product(weights: Tensor, rows: Tensor, factor: Tensor | None) -> Tensor:
    return (rows.unsqueeze(-2) @ weights.mT).squeeze(-2) if factor is None else factor @ weights


def _pieces(law: Law, rows: Tensor, places: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Slices of tensors that share the dimensions before a row's: all at once if they are few."""
    count = rows.shape[:-1].numel()
    step = max(1, torch.get_num_threads() * PIECE // max(1, law.numbers(places.shape[-1], rows.shape[-1])))
    if count <= step:
        yield rows, places, *others
        return
    flat = [tensor.flatten(0, rows.dim() - 2) for tensor in (rows, places, *others)]
    for start in range(0, count, step):
        yield tuple(tensor[start : start + step] for tensor in flat)
