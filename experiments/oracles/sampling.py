"""Samples the gradients of a contender in a setting, and measures their cost."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.oracles.contenders import Contender
from experiments.oracles.setting import Act, Setting, stream
from surrogates.core import EmptyCell
from surrogates.hard_layer import HardLayer
from surrogates.noise import uniforms
from surrogates.sampling.perturbation import add_noise, standard_noise
from surrogates.sampling.score_function import score_function
from surrogates.strategies.sampled import Sampled


@dataclass(frozen=True)
class Samples:
    """Gradients (draws, n), and the seconds and bytes saved for backward of all draws together."""

    gradients: Tensor
    seconds: float
    saved_bytes: int


def sample(contender: Contender, setting: Setting, seed: int = 0, draws: int | None = None) -> Samples:
    """Samples gradients of independent draws.

    Raises EmptyCell if the op lacks the reading.
    """
    count = setting.draws if draws is None else draws
    rows = setting.parameters.expand(count, -1).clone().requires_grad_()
    strategy = contender.strategy
    layer = HardLayer(setting.op, Sampled() if strategy is None else strategy)
    layer.noise_key = (seed, 0, 0)
    act = _on_noise(layer, setting, seed) if contender.on_noise else layer
    saved: dict[int, int] = {}
    start = time.perf_counter()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: _note(x, saved), lambda x: x):
        loss = _loss(act, layer, setting, rows, seed, strategy is None)
        (gradients,) = torch.autograd.grad(loss.sum() / (loss.numel() / count), rows, allow_unused=True)
    seconds = time.perf_counter() - start
    if gradients is None:
        gradients = torch.zeros_like(rows)
    return Samples(gradients, seconds, sum(saved.values()))


def _loss(act: Act, layer: HardLayer, setting: Setting, rows: Tensor, seed: int, by_score: bool) -> Tensor:
    data = stream(seed + 1)
    if by_score:
        return score_function(lambda: setting.loss(act, rows, data), layer)
    return setting.loss(act, rows, data)


def _on_noise(layer: HardLayer, setting: Setting, seed: int) -> Act:
    """Returns the layer on x + scale e, with a new e at every call."""
    if setting.op.subtracts_noise:
        raise EmptyCell("the settings' Gumbel noise is added")
    calls = 0

    def act(x: Tensor, *others: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        e = standard_noise(setting.op, uniforms(x, (seed, 1, calls)), setting.kernel)
        return layer(add_noise(setting.op, x, e, setting.scale), *others)  # type: ignore[no-any-return]

    return act


def _note(x: Tensor, saved: dict[int, int]) -> Tensor:
    """Counts a storage once."""
    storage = x.untyped_storage()
    saved[storage.data_ptr()] = storage.nbytes()
    return x
