"""Products with SoftSort's weights in linear time: sums along a sorted row, weighted by exp(-|x_i - x_j| / T).

To either side of x_i such a weight is a factor of i times one of j, so the sums are running sums and need no matrix.
Of a row in float32 whose ends are up to 600 T apart, float64 holds the factors, their products with any of its numbers
and the sums of these; what it rounds is far below float32's resolution.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surrogates.known import at_hand, dual, readable
from surrogates.sorting.relaxed_order import small, softmax
from surrogates.sorting.sort_laws import SoftSort

REACH = 600.0  # T between the ends of a row
Ascending = tuple[Tensor, Tensor]  # rows in ascending order, and the order


def within_reach(rows: Tensor, T: Tensor | float) -> Ascending | None:
    """The rows sorted, if the products below take them at this T; else None.

    They do not take few numbers, NaN or infinite entries, nor a temperature with a derivative.
    """
    if rows.dtype != torch.float32 or not rows.numel() or not at_hand(rows) or dual(rows):
        return None
    if small(rows, rows.shape[-1] ** 2):
        return None
    temperature = readable(T)
    if temperature is None or (isinstance(T, Tensor) and (T.requires_grad or dual(T))):
        return None
    values, order = rows.detach().contiguous().sort(dim=-1, stable=True)
    apart = float((values[..., -1] - values[..., 0]).max())
    return (values, order) if apart <= REACH * temperature else None


def sorted_values(rows: Tensor, ascending: Ascending, T: Tensor | float) -> Tensor:
    """P x, (..., n) by ranks, with SoftSort's P_ij = K_ij / sum_k K_ik, K_ij = exp(-|x_(i) - x_j| / T)."""
    values: Tensor = _SoftSortProduct.apply(rows, *ascending, None, float(T))
    return values


def received(rows: Tensor, ascending: Ascending, T: Tensor | float, factor: Tensor) -> Tensor:
    """factor P, (..., c, n) by entries, for constants (c, n)."""
    product: Tensor = _SoftSortProduct.apply(rows, *ascending, factor, float(T))
    return product


class _SoftSortProduct(torch.autograd.Function):
    """Indices are places in ascending order here, in which K is symmetric; T is a constant."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, values: Tensor, order: Tensor, factor: Tensor | None, T: float) -> Tensor:
        wide = values.double()
        scale = (wide - wide[..., :1]).div_(T).exp_().unsqueeze(-2)
        ones = torch.ones_like(scale)
        if factor is None:
            right = wide.unsqueeze(-2)
            both = torch.cat([right, ones], -2)
            product, total = _even(both, *_sides(both, scale)).tensor_split(2, -2)
            product = product / total
            result: Tensor = product.squeeze(-2).to(rows.dtype)
        else:
            total = _even(ones, *_sides(ones, scale))
            right = factor / total
            product = _even(right, *_sides(right, scale)).to(rows.dtype)
            result = torch.empty_like(product).scatter_(-1, order.unsqueeze(-2).expand_as(product), product)
        ctx.T = T
        ctx.save_for_backward(rows, values, order, factor, scale, total, right, product)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """By K_ij it is left_i right_j + row_i; K_ij's by x_i is -A_ij / T, by x_j A_ij / T, see `_odd`."""
        rows, values, order, factor, scale, total, right, product = ctx.saved_tensors
        if torch.is_grad_enabled():  # the derivative gets a graph of its own
            weights = softmax(SoftSort().logits(wide := rows.double(), order, ctx.T))
            again = (weights @ wide.unsqueeze(-1)).squeeze(-1) if factor is None else factor.double() @ weights
            return *torch.autograd.grad(again.to(rows.dtype), rows, gradient, create_graph=True), None, None, None, None
        if factor is None:
            left = gradient.unsqueeze(-2) / total
            row = (left * product).neg_()
        else:
            left = gradient.gather(-1, order.unsqueeze(-2).expand_as(gradient)).double()
            row = _even(left, *_sides(left, scale)).mul_(right).sum(-2, keepdim=True).div_(-total)
        v = torch.cat([left, row, right, torch.ones_like(total)], -2)
        up, down = _sides(v, scale)
        partner = _odd(values, up, down).roll(left.shape[-2] + 1, -2)
        by_values = partner.mul_(v).sum(-2).div_(-ctx.T)
        if factor is None:  # right is x too
            by_values += _even(left, up[..., :1, :], down[..., :1, :]).squeeze(-2)
        return torch.empty_like(rows).scatter_(-1, order, by_values.to(rows.dtype)), None, None, None, None


def _sides(v: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """sum_j K_ij v_j over j up to i, and over j from i on."""
    up = (v * scale).cumsum(-1).div_(scale)
    down = (v / scale).flip(-1).cumsum(-1).flip(-1).mul_(scale)
    return up, down


def _even(v: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """K v, of the sums to both sides, whose memory is used."""
    return up.add_(down).sub_(v)


def _odd(values: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """A v, A_ij = K_ij sign(x_i - x_j): tied numbers are taken to both sides, where they cancel."""
    if not (values[..., 1:] == values[..., :-1]).any():
        return up - down
    last = torch.searchsorted(values, values, right=True).sub_(1).unsqueeze(-2)
    first = torch.searchsorted(values, values).unsqueeze(-2)
    return up.gather(-1, last.expand_as(up)).sub_(down.gather(-1, first.expand_as(up)))
