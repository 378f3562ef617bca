"""Finds where a run became NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from experiments.measuring.parameter_names import readable

LARGEST = 2.0**64  # a norm whose square overflows float32


class Diverged(Exception):
    """Raised if a loss, gradient, parameter or temperature is not finite; the message names step and place."""


@dataclass(frozen=True)
class StepNumbers:
    """The losses of the steps since the last logged one, norms of gradients and weights by parameter, T by layer.

    `clips` says whether gradients are clipped.
    """

    losses: list[float]
    gradients: Mapping[str, float]
    weights: Mapping[str, float]
    temperatures: Mapping[str, float]
    clips: bool = False  # then the optimizer gets no gradient larger than the limit

    @property
    def is_sound(self) -> bool:
        """Whether all numbers are finite, and no norm is too large to train with."""
        finite = all(map(math.isfinite, (*self.losses, *self.temperatures.values())))
        return finite and not self.bad_weights and not self.bad_gradients

    @property
    def bad_weights(self) -> dict[str, float]:
        """Returns the norms of weights that are not finite, or too large to square."""
        return {name: norm for name, norm in self.weights.items() if not norm < LARGEST}

    @property
    def bad_gradients(self) -> dict[str, float]:
        """Returns the norms of gradients that are not finite, or too large to square if gradients are not clipped."""
        limit = math.inf if self.clips else LARGEST
        return {name: norm for name, norm in self.gradients.items() if not norm < limit}


def is_finite(values: Tensor) -> bool:
    """Whether all numbers of a tensor are finite."""
    return bool(values.isfinite().all())


def describe_fault(model: nn.Module, x: Tensor, step: int, numbers: StepNumbers) -> str:
    """Describes the numbers of the logged step `step` that are not finite or too large; empty if there are none."""
    if numbers.is_sound:
        return ""
    losses = numbers.losses
    bad_steps = [step - len(losses) + 1 + i for i, loss in enumerate(losses) if not math.isfinite(loss)]
    parts = [f"training diverged by step {step}"]
    if bad_steps:
        parts.append(f"the loss is {losses[bad_steps[0] - step - 1]} from step {bad_steps[0]} on")
    for what, bad in (("parameter", numbers.bad_weights), ("gradient of", numbers.bad_gradients)):
        for name, norm in list(bad.items())[:1]:
            fault = f"has norm {norm:.3g}" if math.isfinite(norm) else "is not finite"
            more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            parts.append(f"{what} {name} {fault} (layer {name.rpartition('.')[0] or 'model'}){more}")
    for name, temperature in [item for item in numbers.temperatures.items() if not math.isfinite(item[1])][:1]:
        parts.append(f"the temperature of layer {name} is {temperature}")
    layer = first_bad_layer(model, x)
    if layer:
        parts.append(f"the first layer whose output is not finite is {layer}")
    return "; ".join(parts) + ". Lower optimizer.lr, set optimizer.clip_norm, or see debug=anomaly"


def first_bad_layer(model: nn.Module, x: Tensor) -> str | None:
    """Names the first module, in the order of the forward pass, whose output is not finite; None if all are finite.

    The pass writes into copies of the buffers, so the model is unchanged.
    """
    found: list[str] = []

    def watch(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not is_finite(output):
                found.append(readable(name))

        return hook

    leaves = {name: m for name, m in model.named_modules() if name and not any(m.children())}
    hooks = [module.register_forward_hook(watch(name)) for name, module in leaves.items()]
    try:
        with torch.no_grad():
            functional_call(model, {name: buffer.clone() for name, buffer in model.named_buffers()}, (x,))
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else None
