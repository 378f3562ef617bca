"""Computes gradient norms by parameter, unscaled and before clipping, of one model or of a stack."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from experiments.measuring.parameter_names import trained_parameters


def norms(tensors: Sequence[Tensor], replicas: int = 1) -> Tensor:
    """Computes 2-norms (R, n) of n tensors (R, ...), or (1, n) of one model's, of any dtype, device or layout.

    Computed in float64. In float32 squares vanish below 1e-23 and overflow above 1e19, so a tiny norm would be 0 and
    a finite gradient could have an infinite norm.
    """
    rows = [_rows(tensor.detach(), replicas) for tensor in tensors]
    columns = [torch.linalg.vector_norm(row, dim=1, dtype=torch.float64) for row in rows]
    if not columns:
        return torch.zeros(replicas, 0, dtype=torch.float64)
    return torch.stack([column.to(columns[0].device) for column in columns], dim=1)


def norms_by_name(tensors: Mapping[str, Tensor], replicas: int = 1) -> dict[str, Tensor]:
    """Returns the norms (R,) of each tensor."""
    return dict(zip(tensors, norms(list(tensors.values()), replicas).unbind(1), strict=True))


def _rows(tensor: Tensor, replicas: int) -> Tensor:
    dense = tensor.coalesce().values() if tensor.is_sparse else tensor
    return dense.reshape(replicas, dense.numel() // replicas)


def clip(gradients: Sequence[Tensor], limit: float, replicas: int = 1) -> Tensor:
    """Scales each replica's gradients to a total norm of at most `limit`; returns 1 if that changed them, else 0.

    If the norm is not finite, the replica's gradients stay unchanged: a bad one must not change the others.
    """
    norm = torch.linalg.vector_norm(norms(gradients, replicas), dim=1)
    norm = torch.where(norm.isfinite(), norm, 0.0)
    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        shape = () if replicas == 1 else (replicas, *(1 for _ in gradient.shape[1:]))
        gradient.mul_(factor.to(gradient).view(shape))
    return (norm > limit).float()


@dataclass
class GradientRecord:
    """Records which parameters received no gradient at any logged step, and which only gradients of exactly 0."""

    missing: set[str]
    zero: set[str]

    @classmethod
    def of(cls, model: nn.Module) -> GradientRecord:
        """Makes the record of a run before its first step."""
        return cls(set(trained_parameters(model)), set(trained_parameters(model)))

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> GradientRecord:
        """Restores the record from a checkpoint."""
        return cls(set(state["missing"]), set(state["zero"]))

    def state(self) -> dict[str, list[str]]:
        """Returns the state for a checkpoint."""
        return {"missing": sorted(self.missing), "zero": sorted(self.zero)}

    def update(self, by_parameter: Mapping[str, float]) -> None:
        """Adds the norms of one step."""
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
    """Returns the gradients by parameter name, without those that are None."""
    return {name: parameter.grad for name, parameter in parameters.items() if parameter.grad is not None}


def total(by_parameter: Mapping[str, float]) -> float:
    """Computes the norm of all gradients together; NaN if there are none, because 0 would look like convergence."""
    if not by_parameter:
        return math.nan
    return math.sqrt(sum(norm * norm for norm in by_parameter.values()))
