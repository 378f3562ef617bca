"""Carriers: `graft`, where a value and a derivative come apart, and the tensors whose derivative is taken."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor

from surrogates.known import dual, known_finite
from surrogates.per_thread import PerThread

SMALLEST_NORMAL = sys.float_info.min


def graft(value: Tensor, carrier: Tensor) -> Tensor:
    """The value of `value` with the derivatives, of every order, of `carrier`.

    `torch.equal(graft(v, c), v)` for every finite or infinite v, in v's dtype. Where `carrier` is infinite the
    derivative is 0; where it is NaN, 0 or the incoming one. Unlike `c + (v - c).detach()` nothing is added to the
    value, so no bit of it changes.
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
    return _apply_graft(owned, carrier)


def only_slopes(*x: Tensor, T: Tensor | float | None) -> AbstractContextManager[None]:
    """A block whose result is a carrier of which `graft` reads the slope, and of its value only where it is infinite.

    Curves in it, which must enter the result linearly (`Op.linear_in_curves`), leave their values out. Not where T has
    a derivative itself, nor in forward mode, nor under torch.compile, where what is not used is not computed.
    """
    if torch.compiler.is_compiling() or dual(*x) or (isinstance(T, Tensor) and (T.requires_grad or dual(T))):
        return nullcontext()
    return _only_slopes.holding(True)


def slopes_only() -> bool:
    """Whether the values of curves are left out here."""
    return not torch.compiler.is_compiling() and _only_slopes.value


_only_slopes = PerThread(False)


def applier(function: type[torch.autograd.Function]) -> Callable[..., Tensor]:
    """`function.apply`, at a third of its cost outside torch.func's transforms.

    There an old-style twin does, for which torch does not bind the arguments to the signature of `forward`.
    """

    class Twin(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            output = function.forward(*arguments)
            function.setup_context(ctx, arguments, output)
            return output

        backward = function.backward
        jvp = function.jvp

    def apply(*arguments: Any) -> Tensor:
        transformed = torch._C._are_functorch_transforms_active()
        result: Tensor = (function if transformed else Twin).apply(*arguments)
        return result

    return apply


class _Graft(torch.autograd.Function):
    @staticmethod
    def forward(value: Tensor, carrier: Tensor) -> Tensor:
        # An alias that autograd does not know as a view: autograd refuses to change a Function's view in place.
        alias: Tensor = torch.ops.aten._unsafe_view(value, value.shape)
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
        """A value of its own for each of the carriers: one that they share would have the sum of their gradients."""
        value_dim, carrier_dim = in_dims
        values = (
            value.expand(info.batch_size, *value.shape).clone() if value_dim is None else value.movedim(value_dim, 0)
        )
        carriers = carrier.expand_as(values) if carrier_dim is None else carrier.movedim(carrier_dim, 0)
        grafted: Tensor = _Graft.apply(values, carriers)
        return grafted, 0


_apply_graft = applier(_Graft)


def _where_finite(gradient: Tensor, carrier: Tensor) -> Tensor:
    """`gradient` where `carrier` is finite, 0 where it is infinite: one kernel, where isfinite and where would be five.

    What it does at NaN depends on the strides, which matters little: the value is NaN there too. Asking whether the
    carrier is finite costs less; not for a leaf, which would copy a gradient that is not its own.
    """
    if not carrier.is_leaf and known_finite(carrier):
        return gradient
    masked: Tensor = torch.ops.aten.hardtanh_backward(gradient, carrier, -math.inf, math.inf)
    return masked


class _Refused(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise RuntimeError("this estimator has no second derivative: its first one is no function's derivative")

    jvp = backward


class _FirstOrder(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(carrier: Tensor) -> Tensor:
        return carrier.view_as(carrier)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        refused: Tensor = _Refused.apply(gradient)
        return refused

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return tangent.view_as(tangent)


def first_order(carrier: Tensor) -> Tensor:
    """A carrier whose first derivative may be taken, and whose second raises RuntimeError: it would mean nothing.

    Under torch.compile the second derivative is that of the carrier as it stands.
    """
    if torch.compiler.is_compiling():
        return carrier
    guarded: Tensor = _FirstOrder.apply(carrier)
    return guarded


def detached(x: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The tensors without their graph: a value that is grafted needs none."""
    return tuple(tensor.detach() for tensor in x)


def flat(x: Tensor) -> Tensor:
    """A zero in the graph of x: derivative exactly 0, even for infinite x or incoming gradient."""
    return torch.where(torch.zeros((), dtype=torch.bool, device=x.device), x, torch.zeros((), dtype=x.dtype))


def passing(x: Tensor, mask: Tensor) -> Tensor:
    """A carrier with x's derivative where `mask` and 0 elsewhere; a product, since `where` is 8 x slower on a CPU.

    NaN, for which graft's derivative is not defined, where x is infinite and the mask is off.
    """
    return x * mask


def passing_between(x: Tensor, low: float, high: float, strict: bool = False) -> Tensor:
    """A carrier with x's derivative on [low, high], or on (low, high) if `strict`, and 0 elsewhere.

    hardtanh's derivative is 0 at both of its bounds on every torch, so inclusive bounds are its bounds moved out by one
    number; it takes one kernel where the mask takes four.
    """
    if x.dtype not in (torch.float32, torch.float64) or torch.compiler.is_compiling():
        return torch.where((x > low) & (x < high) if strict else (x >= low) & (x <= high), x, 0)
    if not strict:
        low, high = around(low, high, x.dtype)
    held: Tensor = torch.nn.functional.hardtanh(x, low, high)
    return held


def denormals_are_zero() -> bool:
    """Whether this thread takes numbers too small for full precision as 0 (`torch.set_flush_denormal`)."""
    return SMALLEST_NORMAL / 2 == 0.0


def around(low: float, high: float, dtype: torch.dtype) -> tuple[float, float]:
    """The numbers of a dtype next below `low` and next above `high`.

    Where denormal numbers are 0, next to 0 is the smallest normal one.
    """
    return _around(low, high, dtype, denormals_are_zero())


@cache
def _around(low: float, high: float, dtype: torch.dtype, without_denormals: bool) -> tuple[float, float]:
    bounds = torch.tensor([low, high], dtype=dtype)
    below, above = torch.nextafter(bounds, torch.tensor([-math.inf, math.inf], dtype=dtype)).tolist()
    least = torch.finfo(dtype).tiny if without_denormals else 0.0
    return below if low else min(below, -least), above if high else max(above, least)
