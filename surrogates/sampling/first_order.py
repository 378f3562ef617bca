"""A guard for estimators whose first derivative is not that of any function, so that a second has no meaning."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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
        raise RuntimeError("this estimator has no second derivative, as its first is not that of any function")

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
    """A carrier whose second derivative raises RuntimeError, as it has no meaning.

    Under torch.compile the second derivative is the carrier's own, without an error.
    """
    if torch.compiler.is_compiling():
        return carrier
    guarded: Tensor = _FirstOrder.apply(carrier)
    return guarded
