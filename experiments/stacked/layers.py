"""Layers of R models at once.

Every parameter and buffer has a leading replica axis (R, ...). Activations are *folded*: (R * B, ...), the samples of
one replica after those of another, so that whatever treats samples one by one needs no change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

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


class Asked(NamedTuple):
    """Noise that an application of a layer takes, of one replica's samples."""

    dtype: torch.dtype
    device: torch.device
    shape: tuple[int, ...]


class StackedHardLayer(HardLayer):
    """A hard layer without parameters: folded as it is, or under vmap where replicas have their own T.

    `temperature` is (R,), `strategies` holds each replica's own, or one that all have; `noise_key` begins with the
    seeds, int64 (R,). `asked` is the noise that the last forward pass took; the next one takes `given` if it is there.
    """

    strategies: list[Strategy]
    one_temperature: bool = True
    asked: tuple[Asked, ...] = ()
    given: Iterator[Tensor] | None = None

    def forward(self, *x: Tensor) -> Tensor:
        """The op on folded inputs."""
        if self.mode == "hard":
            return super().forward(*x)
        noise = self._noise(x)
        if self.one_temperature:
            T = None if self.temperature is None else self.temperature[0]
            return self.acting(self.op, *x, T=T, noise=None if noise is None else self._folded(noise, x))

        def alone(T: Tensor, noise: Tensor | None, *x: Tensor) -> Tensor:
            return self.acting(self.op, *x, T=T, noise=noise)

        assert self.temperature is not None
        own = (unfold(tensor, len(self.temperature)) for tensor in x)
        dims = (0, None if noise is None else 0, *(0 for _ in x))
        output: Tensor = vmap(alone, dims)(self.temperature, noise, *own)
        return output.flatten(0, 1)

    def _noise(self, x: tuple[Tensor, ...]) -> Tensor | None:
        """Each replica's own, (R, *shape)."""
        if not self.acting.noisy(self.op):
            self.asked = ()
            return None
        if self.given is not None:
            return next(self.given)
        own = [unfold(tensor, len(self._seeds))[0] for tensor in x]
        shape = self.acting.noise_shape(self.op, *own)
        assert shape is not None
        self.asked = (*self.asked[: self.draws], Asked(own[0].dtype, own[0].device, tuple(shape)))
        self.draws += 1
        return self._draw(self.asked[-1], self.draws)

    def draw_ahead(self, asked: Sequence[Asked]) -> list[Tensor]:
        """The noise that a forward pass will ask for."""
        return [self._draw(one, draw) for draw, one in enumerate(asked, 1)]

    def _draw(self, asked: Asked, draw: int) -> Tensor:
        like = torch.empty(0, dtype=asked.dtype, device=asked.device)
        return uniforms_of_seeds(like, self._seeds.tolist(), (*self.noise_key[1:], draw), asked.shape)

    @property
    def _seeds(self) -> Tensor:
        seeds = self.noise_key[0]
        assert isinstance(seeds, Tensor)
        return seeds

    def _folded(self, noise: Tensor, x: tuple[Tensor, ...]) -> Tensor:
        """The noise of all samples, which may stand behind axes of its own."""
        shape = self.acting.noise_shape(self.op, *x)
        assert shape is not None
        axes = enumerate(zip(noise.shape[1:], shape, strict=True))
        samples = next((axis for axis, sizes in axes if len(set(sizes)) > 1), 0)
        return noise.flatten(0, 1) if samples == 0 else torch.cat(noise.unbind(), samples)

    def anneal(self, progress: float, epoch: float | None = None) -> None:
        """Writes each replica's scheduled temperature."""
        anneal(self, progress, epoch)


class VmappedHardLayer(HardLayer):
    """A hard layer inside a module that runs under vmap."""

    strategies: list[Strategy]

    def anneal(self, progress: float, epoch: float | None = None) -> None:
        """Writes each replica's scheduled temperature."""
        anneal(self, progress, epoch)


@contextmanager
def taking(layers: Sequence[StackedHardLayer], noise: Sequence[Sequence[Tensor]]) -> Iterator[None]:
    """The layers take the noise that is given for each instead of drawing it."""
    for layer, own in zip(layers, noise, strict=True):
        layer.given = iter(own)
    try:
        yield
    finally:
        for layer in layers:
            layer.given = None


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
            return _vmapped(self, x)
        finally:
            self.running = False


def _vmapped(module: nn.Module, x: tuple[Tensor, ...]) -> Tensor:
    """A module applied to x for each replica, its noise keyed by its own seed."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    layers = list(hard_layers(module).values())
    keys = [layer.noise_key for layer in layers]
    seeds = next((key[0] for key in keys if isinstance(key[0], Tensor)), None)
    first = next(iter(state.values()), seeds)
    assert first is not None

    def alone(state: dict[str, Tensor], seed: Tensor | None, *x: Tensor) -> Any:
        if seed is not None:
            for layer in layers:
                layer.noise_key = (seed, *layer.noise_key[1:])
        return functional_call(module, state, x)

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
