"""Refuses, before the work starts, what cannot be diagnosed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from surrogates.diagnosis.backward import reachable


def check_arguments(model: nn.Module, loss_fn: Callable[..., Any]) -> None:
    """Raises TypeError or ValueError for a model and loss that can't be diagnosed."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not callable(loss_fn):
        raise TypeError(f"loss_fn must be callable, got {type(loss_fn).__name__}; diagnose(model, loss_fn, batch)")
    if lazy := [name for name, parameter in model.named_parameters() if is_lazy(parameter)]:
        raise ValueError(f"run the model once first: these parameters have no shape yet: {', '.join(lazy)}")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("no parameter of the model requires a gradient: there are none, or all are frozen")


def check_loss(loss: Any) -> None:
    """Raises TypeError or ValueError for a loss that can't be differentiated here."""
    if not isinstance(loss, (Tensor, int, float)):
        raise TypeError(f"loss_fn must return a tensor of one number, it returned a {type(loss).__name__}")
    nodes = reachable(loss.grad_fn) if isinstance(loss, Tensor) else []
    if any(node.name() == "CheckpointFunctionBackward" for node in nodes):
        raise ValueError("the model has reentrant checkpoints, which have no gradients here: pass use_reentrant=False")
