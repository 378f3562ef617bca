"""`graft`, the one place where a value and a derivative come apart."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surrogates.known import known_finite


def graft(value: Tensor, carrier: Tensor) -> Tensor:
    """The value of `value` with the derivatives, of every order, of `carrier`.

    `torch.equal(graft(v, c), v)` for every finite or infinite v, in v's dtype. Where `carrier` is infinite or NaN the
    derivative is 0. Unlike `c + (v - c).detach()` nothing is added to the value, so no bit of it changes.
    The result takes over the memory of a `value` without a graph: an operation in place on it writes there.

    Raises ValueError if the shapes differ.
    """
    if value.shape != carrier.shape:
        raise ValueError(f"graft needs equal shapes, got value {tuple(value.shape)} and carrier {tuple(carrier.shape)}")
    if torch.compiler.is_compiling():  # the Function below gives silent zeros under compile(grad(...)), torch 2.14
        difference = carrier - carrier.detach()
        difference = torch.where(carrier.detach().isfinite(), difference, torch.zeros_like(difference))
        return value.detach() + difference.to(value.dtype)
    owned = value.detach().clone() if value.requires_grad else value  # a parameter must not be written through
    grafted: Tensor = _Graft.apply(owned, carrier)
    return grafted


class _Graft(torch.autograd.Function):
    @staticmethod
    def forward(value: Tensor, carrier: Tensor) -> Tensor:
        # The same memory, but no view: autograd refuses to write in place into a view that a Function returns.
        memory = value.untyped_storage(), value.storage_offset(), value.shape, value.stride()
        alias: Tensor = value.new_empty(0).set_(*memory)
        return alias

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        carrier = inputs[1]
        ctx.dtype = output.dtype
        ctx.save_for_backward(carrier)
        ctx.save_for_forward(carrier)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        (carrier,) = ctx.saved_tensors
        return None, _where_finite(gradient.to(carrier.dtype), carrier)

    @staticmethod
    def jvp(ctx: Any, _: Tensor | None, tangent: Tensor) -> Tensor:
        (carrier,) = ctx.saved_tensors
        return _where_finite(tangent, carrier).to(ctx.dtype)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], value: Tensor, carrier: Tensor) -> tuple[Tensor, int]:
        """One value for each of the carriers: a shared one would have the sum of their gradients."""
        value_dim, carrier_dim = in_dims
        values = (
            value.expand(info.batch_size, *value.shape).clone() if value_dim is None else value.movedim(value_dim, 0)
        )
        carriers = carrier.expand_as(values) if carrier_dim is None else carrier.movedim(carrier_dim, 0)
        grafted: Tensor = _Graft.apply(values, carriers)
        return grafted, 0


def _where_finite(gradient: Tensor, carrier: Tensor) -> Tensor:
    """`gradient` where `carrier` is finite, else 0."""
    return gradient if known_finite(carrier) else torch.where(carrier.isfinite(), gradient, 0)
