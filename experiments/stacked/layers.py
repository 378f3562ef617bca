"""Layers of R models at once.

Every parameter and buffer has a leading replica axis (R, ...). Activations are *folded*: (R * B, ...), the samples of
one replica after those of another, so that whatever treats samples one by one needs no change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.utils import parametrize

from surrogates.core import Strategy
from surrogates.hard_layer import HardLayer, hard_layers
from surrogates.noise import uniforms_of_seeds


def unfold(x: Tensor, replicas: int) -> Tensor:
    """(R * B, ...) as (R, B, ...)."""
    return torch.unflatten(x, 0, (replicas, -1))


class StackedLinear(nn.Linear):
    """R linear layers as one batched matrix product."""

    def forward(self, x: Tensor) -> Tensor:
        """(R * B, in) to (R * B, out)."""
        product = x.view(len(self.weight), -1, self.in_features), self.weight.mT
        if self.bias is None:
            return torch.bmm(*product).flatten(0, 1)
        return torch.baddbmm(self.bias.unsqueeze(1), *product).flatten(0, 1)


class StackedHardLayer(HardLayer):
    """A hard layer without parameters: folded as it is, or under vmap where replicas have their own T.

    `temperature` is (R,), `strategies` holds each replica's own, or one that all have; `noise_key` begins with the
    seeds, int64 (R,).
    """

    strategies: list[Strategy]
    one_temperature: bool = True

    def forward(self, *x: Tensor) -> Tensor:
        """The op on folded inputs."""
        if self.mode == "hard":
            return super().forward(*x)
        if not self.one_temperature:
            return _vmapped(self, self._alone, x)
        T = None if self.temperature is None else self.temperature[0]
        return self.acting(self.op, *x, T=T, noise=self._noise(x))

    def _noise(self, x: tuple[Tensor, ...]) -> Tensor | None:
        """Folded, each replica's own; under vmap that of one."""
        seeds, *rest = self.noise_key
        if not isinstance(seeds, Tensor) or seeds.dim() == 0 or not self.acting.noisy(self.op):
            return super()._noise(x)
        own = [unfold(tensor, len(seeds))[0] for tensor in x]
        shape, folded = self.acting.noise_shape(self.op, *own), self.acting.noise_shape(self.op, *x)
        assert shape is not None
        assert folded is not None
        self.draws += 1
        drawn = uniforms_of_seeds(own[0], seeds.tolist(), (*rest, self.draws), shape)
        samples = next((axis for axis, sizes in enumerate(zip(shape, folded, strict=True)) if len(set(sizes)) > 1), 0)
        return drawn.flatten(0, 1) if samples == 0 else torch.cat(drawn.unbind(), samples)

    def _alone(self, state: dict[str, Tensor], *x: Tensor) -> Tensor:
        return self.acting(self.op, *x, T=state.get("temperature"), noise=self._noise(x))

    def anneal(self, progress: float, epoch: float | None = None) -> None:
        """Writes each replica's scheduled temperature."""
        anneal(self, progress, epoch)


class VmappedHardLayer(HardLayer):
    """A hard layer inside a module that runs under vmap."""

    strategies: list[Strategy]

    def anneal(self, progress: float, epoch: float | None = None) -> None:
        """Writes each replica's scheduled temperature."""
        anneal(self, progress, epoch)


def anneal(layer: Any, progress: float, epoch: float | None) -> None:
    """`HardLayer.anneal` with a temperature for each replica in the layer's buffer (R,)."""
    layer.acting = layer.strategy.at(progress)
    if layer.temperature is None:
        return
    share = layer.read_clock(progress, epoch)
    scheduled = [strategy.temperature_at(share) for strategy in layer.strategies]
    layer.one_temperature = len(set(scheduled)) == 1
    if layer.one_temperature:
        layer.temperature.fill_(scheduled[0])
    else:
        layer.temperature.copy_(torch.tensor(scheduled))


def changes(model: nn.Module) -> bool:
    """Whether any replica's strategy, or its temperature, is another one at the end of training than at its start."""
    layers: list[Any] = list(hard_layers(model).values())
    return any(strategy.changes for layer in layers for strategy in layer.strategies)


class Vmapped(nn.Module):
    """Mixed into the class of any other module that has a state: its own forward, for each replica by vmap."""

    running = False

    def forward(self, *x: Tensor) -> Any:
        """Folded inputs to folded outputs."""
        if self.running:
            return super().forward(*x)
        self.running = True
        try:
            return _vmapped(self, self._alone, x)
        finally:
            self.running = False

    def _alone(self, state: dict[str, Tensor], *x: Tensor) -> Any:
        return functional_call(self, state, x)


def _vmapped(module: nn.Module, function: Callable[..., Tensor], x: tuple[Tensor, ...]) -> Tensor:
    """function(state, *x) for each replica, its noise keyed by its own seed."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    layers = list(hard_layers(module).values())
    keys = [layer.noise_key for layer in layers]
    seeds = next((key[0] for key in keys if isinstance(key[0], Tensor)), None)
    first = next(iter(state.values()), seeds)
    assert first is not None

    def alone(state: dict[str, Tensor], seed: Tensor | None, *x: Tensor) -> Tensor:
        if seed is not None:
            for layer in layers:
                layer.noise_key = (seed, *layer.noise_key[1:])
        return function(state, *x)

    dims = (0, None if seeds is None else 0, *(0 for _ in x))
    try:
        output: Tensor = vmap(alone, dims)(state, seeds, *(unfold(tensor, len(first)) for tensor in x))
    finally:
        for layer, key in zip(layers, keys, strict=True):
            layer.noise_key = key
    return output.flatten(0, 1)


def stack(models: Sequence[nn.Module]) -> nn.Module:
    """One model of folded batches made of models of the same architecture; its state has a leading replica axis.

    The first of them is consumed.
    """
    states = [{**dict(model.named_parameters()), **dict(model.named_buffers())} for model in models]
    strategies = [{name: layer.strategy for name, layer in hard_layers(model).items()} for model in models]
    stacked = models[0]
    for name in states[0]:
        owner, _, key = name.rpartition(".")
        module = stacked.get_submodule(owner)
        together = torch.stack([state[name].detach() for state in states])
        if key in module._parameters:
            module._parameters[key] = nn.Parameter(together, states[0][name].requires_grad)
        else:
            module._buffers[key] = together
    _convert(stacked)
    for name, layer in hard_layers(stacked).items():
        own = [models[name] for models in strategies]
        layer.strategies = own if any(one != own[0] for one in own) else own[:1]  # type: ignore[assignment]
        layer.anneal(0.0, 0.0)
    return stacked


def _convert(module: nn.Module) -> None:
    """Changes the classes of a model's modules in place, from the top down to those with a state of their own."""
    for child in module.children():
        if type(child) is nn.Linear:
            child.__class__ = StackedLinear
        elif type(child) is HardLayer:
            child.__class__ = StackedHardLayer
        elif child._parameters or child._buffers or parametrize.is_parametrized(child):
            child.__class__ = type(f"Stacked{type(child).__name__}", (Vmapped, type(child)), {})
            for layer in hard_layers(child).values():
                layer.__class__ = VmappedHardLayer
        else:
            _convert(child)
