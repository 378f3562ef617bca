"""Collects facts about model and data for `result.json`, so that readers need not build the model."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from experiments.data.dataset import Dataset
from experiments.measuring.parameter_names import readable
from experiments.measuring.taps import layer_inputs
from surrogates import HardLayer, Op, hard_layers
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.subgradient import Subgradient

SAMPLES = 16


def facts(model: nn.Module, data: Dataset) -> dict[str, Any]:
    """Returns the numbers of classes and parameters, the hard layers that decide, and whether training is exact."""
    return {
        "classes": data.classes,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "deciding_layers": deciding_layers(model, data),
        "exact": all(is_exact(layer) for layer in hard_layers(model).values()),
    }


def is_exact(layer: HardLayer) -> bool:
    """Whether training has the op's own value and derivative, up to the choice at kinks and ties."""
    strategy = layer.strategy
    return isinstance(strategy, Subgradient) or (isinstance(strategy, Rewrite) and strategy.kind(layer.op) == "exact")


def deciding_layers(model: nn.Module, data: Dataset) -> list[str]:
    """Names the hard layers whose output moves in jumps only, tested at random inputs; the model is unchanged."""
    stream = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, *data.input_shape, generator=stream, dtype=data.train.x.dtype).to(data.train.x.device)
    given = layer_inputs(copy.deepcopy(model).eval(), x, "hard")
    layers = hard_layers(model)
    return [readable(name) for name, inputs in given.items() if decides(layers[name].op, *inputs)]


def decides(op: Op, *x: Tensor) -> bool:
    """Whether the op's derivative by every input is 0 almost everywhere, tested at these inputs.

    True for rounding and argmax. False for the maximum, and for a lookup, because its table is an input too.
    """
    given = [value.detach().requires_grad_() for value in x]
    with torch.enable_grad():
        value = Subgradient()(op, *given)
    weights = torch.arange(1, value.numel() + 1, dtype=value.dtype, device=value.device).view_as(value)
    slopes = torch.autograd.grad(value, given, weights, allow_unused=True) if value.requires_grad else ()
    return not any(slope is not None and bool(slope.any()) for slope in slopes)  # unequal weights: no terms cancel
