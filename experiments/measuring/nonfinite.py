"""Finding where a run became NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from experiments.measuring.parameter_names import readable

LARGEST = 2.0**64  # a norm whose square overflows float32


class Diverged(Exception):
    """A loss, gradient, parameter or temperature is not finite; the message names step, parameter and layer.

    `values` is what is to be logged at that step.
    """

    def __init__(self, reason: str, values: Mapping[str, float]) -> None:
        super().__init__(reason)
        self.values = values


def is_finite(values: Tensor) -> bool:
    """Whether all of a tensor's numbers are finite."""
    return bool(values.isfinite().all())


def is_sound(numbers: Iterable[float], norms: Iterable[float]) -> bool:
    """Whether all numbers are finite, and all norms are and can be squared."""
    return all(map(math.isfinite, numbers)) and all(norm < LARGEST for norm in norms)


def diagnosis(
    model: nn.Module,
    x: Tensor,
    step: int,
    losses: list[float],
    gradients: Mapping[str, float],
    weights: Mapping[str, float],
    temperatures: Mapping[str, float],
) -> str:
    """What is not finite at the logged step `step`, or too large to be squared, in words; empty if all is well.

    `losses` are those of the steps since the last logged one; gradients and weights are norms by parameter,
    temperatures are by layer.
    """
    if is_sound([*losses, *temperatures.values()], [*gradients.values(), *weights.values()]):
        return ""
    bad_steps = [step - len(losses) + 1 + i for i, loss in enumerate(losses) if not math.isfinite(loss)]
    bad_weights = [(name, norm) for name, norm in weights.items() if not norm < LARGEST]
    bad_gradients = [(name, norm) for name, norm in gradients.items() if not norm < LARGEST]
    parts = [f"training diverged by step {step}"]
    if bad_steps:
        parts.append(f"the loss is {losses[bad_steps[0] - step - 1]} from step {bad_steps[0]} on")
    for what, bad in (("parameter", bad_weights), ("gradient of", bad_gradients)):
        for name, norm in bad[:1]:
            fault = f"has norm {norm:.3g}" if math.isfinite(norm) else "is not finite"
            more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            parts.append(f"{what} {name} {fault} (layer {name.rpartition('.')[0] or 'model'}){more}")
    for name, temperature in [item for item in temperatures.items() if not math.isfinite(item[1])][:1]:
        parts.append(f"the temperature of layer {name} is {temperature}")
    layer = first_bad_layer(model, x)
    if layer:
        parts.append(f"the first layer whose output is not finite is {layer}")
    return "; ".join(parts) + ". Lower optimizer.lr, set optimizer.clip_norm, or see debug=anomaly"


def first_bad_layer(model: nn.Module, x: Tensor) -> str | None:
    """The name of the first module, in order of the forward pass, whose output is not finite; None if all are.

    The pass changes nothing: what it would write into buffers goes into copies of them.
    """
    found: list[str] = []

    def look(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not is_finite(output):
                found.append(readable(name))

        return hook

    leaves = {name: m for name, m in model.named_modules() if name and not any(m.children())}
    hooks = [module.register_forward_hook(look(name)) for name, module in leaves.items()]
    try:
        with torch.no_grad():
            functional_call(model, {name: buffer.clone() for name, buffer in model.named_buffers()}, (x,))
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else None
