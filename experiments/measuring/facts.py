"""What a result says of its model and data, so that readers need not make the model again."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from experiments.data.dataset import Dataset
from experiments.measuring.parameter_names import readable
from experiments.measuring.taps import layer_inputs
from surrogates import Op, hard_layers
from surrogates.strategies.subgradient import Subgradient

SAMPLES = 16


def facts(model: nn.Module, data: Dataset) -> dict[str, Any]:
    """Number of classes, number of the model's parameters, and the names of its hard layers that decide."""
    return {
        "classes": data.classes,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "deciding_layers": deciding_layers(model, data),
    }


def deciding_layers(model: nn.Module, data: Dataset) -> list[str]:
    """The hard layers whose output moves in jumps only, at random inputs; changes nothing in the model."""
    stream = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, *data.input_shape, generator=stream, dtype=data.train.x.dtype).to(data.train.x.device)
    given = layer_inputs(copy.deepcopy(model).eval(), x, "hard")
    layers = hard_layers(model)
    return [readable(name) for name, inputs in given.items() if decides(layers[name].op, *inputs)]


def decides(op: Op, *x: Tensor) -> bool:
    """Whether the op's derivative is 0 almost everywhere in all its inputs: here, at these.

    True for rounding and argmax. False for the maximum, and for a lookup, whose table is an input too.
    """
    given = [value.detach().requires_grad_() for value in x]
    with torch.enable_grad():
        value = Subgradient()(op, *given)
    weights = torch.arange(1, value.numel() + 1, dtype=value.dtype, device=value.device).view_as(value)
    slopes = torch.autograd.grad(value, given, weights, allow_unused=True) if value.requires_grad else ()
    return not any(slope is not None and bool(slope.any()) for slope in slopes)  # unequal weights: none cancel
