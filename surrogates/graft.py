"""`graft`, which gives a value the derivative of another tensor."""

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
        finite = finite_mask(carrier)
        ctx.save_for_backward(finite)
        ctx.save_for_forward(finite)
        return value.detach()  # no view: autograd refuses in-place writes to a view that a Function returns

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, mask_gradient(gradient, *ctx.saved_tensors)

    @staticmethod
    def jvp(ctx: Any, _: Tensor | None, tangent: Tensor) -> Tensor:
        return mask_gradient(tangent, *ctx.saved_tensors).to(ctx.dtype)


def finite_mask(x: Tensor) -> Tensor | None:
    """Whether each entry of x is finite; None if all are known to be."""
    return None if known_finite(x) else x.isfinite()


def mask_gradient(gradient: Tensor, finite: Tensor | None) -> Tensor:
    """The gradient where `finite` is true, else 0; the whole gradient for None."""
    return gradient if finite is None else torch.where(finite, gradient, 0)
