"""A hard layer of a trained model as a function of one input: value, derivative and the distribution of inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from experiments.data import load as load_data
from experiments.measuring.taps import layer_inputs
from experiments.tracking.run_paths import RunPaths
from experiments.training.build import floating
from experiments.training.loading import choices_of, load
from surrogates import HardLayer, hard_layers, key_noise, mode

POINTS, SAMPLES = 401, 256
TAIL = 0.005  # share of the inputs beyond either end of the grid, which is then widened by a tenth


@dataclass(frozen=True)
class Response:
    """A layer as a function of one input; the other inputs are those of one sample.

    `hard` and `value` are the hard op's and the strategy's value of the output that this input changes most.
    `derivative` is the strategy's derivative of that output by this input. `inputs` are all inputs of the layer.
    """

    layer: str
    op: str
    strategy: str
    temperature: float | None
    grid: Tensor
    hard: Tensor
    value: Tensor
    derivative: Tensor
    inputs: Tensor


def responses(run: Path) -> Iterator[Response]:
    """Yields the responses of a run's layers at the end of training, on validation data.

    Raises what `load` raises.
    """
    choices = choices_of(RunPaths(run))
    model = load(run, "last")
    data = load_data(choices.data).to("cpu", floating(choices.settings))
    key_noise(model, choices.settings.seed, choices.settings.max_steps)
    given = layer_inputs(model, data.val.x[:SAMPLES], "strategy")
    for name, layer in hard_layers(model).items():
        if name in given:
            yield _response(name, layer, given[name])


def _response(name: str, layer: HardLayer, given: tuple[Tensor, ...]) -> Response:
    first = given[0].double().flatten()
    low, high = torch.quantile(first[:1_000_000], torch.tensor([TAIL, 1 - TAIL], dtype=first.dtype)).tolist()
    margin = 0.1 * (high - low) or 0.5
    grid = torch.linspace(low - margin, high + margin, POINTS, dtype=given[0].dtype)
    moved = given[0][:1].expand(POINTS, *given[0].shape[1:]).clone().flatten(1)
    moved[:, 0] = grid
    moved = moved.view(POINTS, *given[0].shape[1:]).requires_grad_()
    others = [value[:1].expand(POINTS, *value.shape[1:]) for value in given[1:]]
    with mode(layer, "strategy"):
        value = layer(moved, *others).flatten(1)
    with torch.no_grad(), mode(layer, "hard"):
        hard = layer(moved, *others).flatten(1)
    which = int((hard.amax(0) - hard.amin(0)).argmax())
    (slope,) = torch.autograd.grad(value[:, which].sum(), moved, allow_unused=True)
    derivative = torch.zeros(POINTS) if slope is None else slope.flatten(1)[:, 0]
    temperature = None if layer.temperature is None else float(layer.temperature)
    named = (name, type(layer.op).__name__, type(layer.strategy).__name__, temperature)
    return Response(*named, grid, hard[:, which], value[:, which].detach(), derivative.detach(), given[0].flatten())
