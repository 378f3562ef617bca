"""`graft`, the only place where a value gets the derivative of another tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surrogates.known import known_finite
from surrogates.torch_private import transforms_active


def graft(value: Tensor, carrier: Tensor) -> Tensor:
    """The value of `value` with the derivatives, of every order, of `carrier`.

    `torch.equal(graft(v, c), v)` for every finite or infinite v, in v's dtype. Where `carrier` is infinite or NaN the
    derivative is 0. Unlike in `c + (v - c).detach()`, nothing is added to the value, so no bit of it changes.
    The result shares the memory of a `value` without a graph: an in-place operation on the result changes that `value`.

    Raises ValueError if the shapes differ.
    """
    if value.shape != carrier.shape:
        raise ValueError(f"graft needs equal shapes, got value {tuple(value.shape)} and carrier {tuple(carrier.shape)}")
    if torch.compiler.is_compiling() or transforms_active():  # there the Function below fails or silently returns zeros
        difference = carrier - carrier.detach()
        difference = torch.where(carrier.detach().isfinite(), difference, torch.zeros_like(difference))
        return value.detach() + difference.to(value.dtype)
    owned = value.detach().clone() if value.requires_grad else value  # in-place operations must not change a parameter
    grafted: Tensor = _Graft.apply(owned, carrier)
    return grafted


class _Graft(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, carrier: Tensor) -> Tensor:
        ctx.dtype = value.dtype
        ctx.save_for_backward(carrier)
        ctx.save_for_forward(carrier)
        return _alias(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        (carrier,) = ctx.saved_tensors
        return None, _where_finite(gradient.to(carrier.dtype), carrier)

    @staticmethod
    def jvp(ctx: Any, _: Tensor | None, tangent: Tensor) -> Tensor:
        (carrier,) = ctx.saved_tensors
        return _where_finite(tangent, carrier).to(ctx.dtype)


def _alias(x: Tensor) -> Tensor:
    """A tensor on x's memory that is not a view: autograd refuses in-place writes to a view that a Function returns."""
    alias: Tensor = x.new_empty(0).set_(x.untyped_storage(), x.storage_offset(), x.shape, x.stride())
    return alias


def _where_finite(gradient: Tensor, carrier: Tensor) -> Tensor:
    """`gradient` where `carrier` is finite, else 0."""
    return gradient if known_finite(carrier) else torch.where(carrier.isfinite(), gradient, 0)
