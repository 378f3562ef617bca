"""Which layers of a run's model decide: those whose output moves in jumps only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from experiments.measuring.parameter_names import readable
from experiments.tracking.run_paths import RunPaths
from experiments.training.build import build_model, floating
from experiments.training.loading import chosen
from surrogates import Op, hard_layers, mode
from surrogates.strategies.subgradient import Subgradient

SAMPLES = 16


def decisions(run: Path) -> list[str]:
    """The names of the hard layers that decide, from the run's configuration; raises what making its model raises."""
    choices = chosen(RunPaths(run))
    model = build_model(choices)
    stream = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, *choices.data.input_shape, generator=stream, dtype=floating(choices.settings))
    given = _inputs(model, x)
    layers = hard_layers(model)
    return [readable(name) for name, inputs in given.items() if decides(layers[name].op, *inputs)]


def decides(op: Op, *x: Tensor) -> bool:
    """Whether the op's derivative is 0 almost everywhere in all its inputs: here, at these.

    So does a rounding or an argmax; a maximum does not, and a lookup does not either, since its table moves.
    """
    given = [value.detach().requires_grad_() for value in x]
    with torch.enable_grad():
        value = Subgradient()(op, *given)
    weights = torch.arange(1, value.numel() + 1, dtype=value.dtype).view_as(value)  # so that no slopes cancel
    slopes = torch.autograd.grad(value, given, weights, allow_unused=True) if value.requires_grad else ()
    return not any(slope is not None and bool(slope.any()) for slope in slopes)


def _inputs(model: nn.Module, x: Tensor) -> dict[str, tuple[Tensor, ...]]:
    """What each hard layer is given first."""
    given: dict[str, tuple[Tensor, ...]] = {}

    def keep(name: str) -> Any:
        return lambda module, inputs: given.setdefault(name, inputs)

    hooks = [layer.register_forward_pre_hook(keep(name)) for name, layer in hard_layers(model).items()]
    try:
        with torch.no_grad(), mode(model.eval(), "hard"):
            model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return given
