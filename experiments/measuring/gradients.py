"""Gradient norms by parameter: one batched norm, before clipping and after unscaling."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from experiments.measuring.parameter_names import trained


def norms(tensors: list[Tensor]) -> Tensor:
    """2-norms of tensors of any dtype, device or layout, stacked on the first one's device.

    In float64: squares of float32 numbers would vanish below 1e-23, and a tiny norm would pass for exactly 0, or
    overflow above 1e19, and a finite gradient would pass for an infinite one.
    """
    if not tensors:
        return torch.zeros(0, dtype=torch.float64)
    dense = [_dense(tensor) for tensor in tensors]
    return torch.stack([norm.to(dense[0].device) for norm in torch._foreach_norm(dense, 2.0, torch.float64)])


def _dense(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return tensor.coalesce().values() if tensor.is_sparse else tensor


def clip(parameters: Iterable[nn.Parameter], limit: float) -> Tensor:
    """Scales all gradients together to a norm of at most `limit`; returns 1 where that changed them, else 0.

    Where the norm is not finite no gradient is touched, so that a bad one spoils no other.
    """
    present = [parameter for parameter in parameters if parameter.grad is not None]
    norm = torch.linalg.vector_norm(norms([parameter.grad for parameter in present if parameter.grad is not None]))
    norm = torch.where(norm.isfinite(), norm, 0.0)
    nn.utils.clip_grads_with_norm_(present, limit, norm)
    return (norm > limit).float()


@dataclass
class GradientRecord:
    """Which parameters ever received a gradient, and which only ever one of exactly 0, at the logged steps."""

    missing: set[str]
    zero: set[str]

    @classmethod
    def of(cls, model: nn.Module) -> GradientRecord:
        """A record in which nothing has happened yet."""
        return cls(set(trained(model)), set(trained(model)))

    def update(self, by_parameter: Mapping[str, float]) -> None:
        """Takes in one step's norms."""
        self.missing -= by_parameter.keys()
        self.zero -= {name for name, norm in by_parameter.items() if norm != 0}

    @property
    def never_trained(self) -> list[str]:
        """Parameters that received no gradient at all."""
        return sorted(self.missing)

    @property
    def only_zero(self) -> list[str]:
        """Parameters that received a gradient, but never one other than 0."""
        return sorted(self.zero - self.missing)


def present_gradients(parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """The gradients that are there, by parameter name."""
    return {name: parameter.grad for name, parameter in parameters.items() if parameter.grad is not None}


def total(by_parameter: Mapping[str, float]) -> float:
    """The norm of all gradients together; NaN if there are none, because 0 would look like convergence."""
    if not by_parameter:
        return math.nan
    return math.sqrt(sum(norm * norm for norm in by_parameter.values()))
