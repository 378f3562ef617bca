"""Checks, before the passes run, that a model and a loss can be diagnosed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from surrogates.diagnosis.backward import reachable


def check_arguments(model: nn.Module, loss_fn: Callable[..., Any]) -> None:
    """Checks a model and a loss function.

    Raises TypeError if the model is no module or the loss function cannot be called.
    Raises ValueError if a parameter has no shape yet, or none requires a gradient.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not callable(loss_fn):
        raise TypeError(f"loss_fn must be callable, got {type(loss_fn).__name__}; call diagnose(model, loss_fn, batch)")
    if lazy := [name for name, parameter in model.named_parameters() if is_lazy(parameter)]:
        raise ValueError(f"parameters have no shape yet: {', '.join(lazy)}; run the model once first")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("the model has no parameter that requires a gradient; all are frozen, or it has none")


def check_loss(loss: Any) -> None:
    """Checks a loss.

    Raises TypeError if it is neither a tensor nor a number.
    Raises ValueError if the model has reentrant checkpoints.
    """
    if not isinstance(loss, (Tensor, int, float)):
        raise TypeError(f"loss_fn must return a tensor of one number, got {type(loss).__name__}")
    nodes = reachable(loss.grad_fn) if isinstance(loss, Tensor) else []
    if any(node.name() == "CheckpointFunctionBackward" for node in nodes):
        raise ValueError("reentrant checkpoints have gradients in backward() only; pass use_reentrant=False")
