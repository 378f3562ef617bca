"""The guard of estimators whose first derivative is no function's derivative, so that it has none itself."""

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
