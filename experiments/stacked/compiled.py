"""A stack's training step as one compiled function: forward, backward, clipping and optimizer in one graph.

The gradient is taken inside, so that the compiler fuses across forward and backward; two graphs, as autograd would have
them, hand each other masks that are slow to write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

from experiments.measuring.layer_probe import LayerProbe, Reading
from experiments.measuring.parameter_names import readable
from experiments.stacked import cross_entropy
from experiments.stacked.code_cache import Code, kept
from experiments.stacked.layers import Asked, StackedHardLayer, stack, taking
from experiments.stacked.optimizers import Number, StackedOptimizer
from experiments.stacked.tensor_tree import described, leaves, refilled
from surrogates import hard_layers

State = dict[str, Tensor]
Phase = tuple[tuple[int, ...], tuple[tuple[str, bool], ...]]


def clip_factor(norms: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """From gradient norms (parameters, R): what to scale each replica's by, and 1 where that changes them, else 0.

    Where the norm is not finite nothing is changed.
    """
    norm = torch.linalg.vector_norm(norms, dim=0)
    norm = torch.where(norm.isfinite(), norm, 0.0)
    return (limit / (norm + 1e-6)).clamp(max=1.0), (norm > limit).float()


class Taken(NamedTuple):
    """What came of a step: losses (R,), whose gradients were clipped (R,) if any can be, and if it is logged more.

    `norms` are those of the gradients before clipping, (R,) each, by logged name.
    """

    losses: Tensor
    clipped: Tensor | None
    norms: dict[str, Tensor]
    readings: list[Reading]


class Forward(NamedTuple):
    """What a forward pass asks for at each layer that draws noise, and the readings that it gives, with no gradient."""

    asked: list[tuple[Asked, ...]]
    readings: list[Reading]


class CompiledStep:
    """`step(x, y, rates, logs)` advances a stack's parameters and its optimizer's state in place.

    `reached` are the parameters that receive gradients, by their logged names; the optimizer has a state of each. Noise
    is drawn beforehand. It does not change buffers; `obstacle` says why a model cannot have one. `folder` holds the
    code of such steps, see `code_cache`.
    """

    def __init__(
        self, probe: LayerProbe, optimizer: StackedOptimizer, reached: set[str], clip_norm: float | None, folder: Path
    ) -> None:
        self.model, self.probe, self.replicas = probe.model, probe, probe.replicas
        self.optimizer, self.clip_norm, self.folder = optimizer, clip_norm, folder
        everything = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        self.trained = {name: tensor.detach() for name, tensor in everything.items() if readable(name) in reached}
        self.fixed = {name: tensor.detach() for name, tensor in everything.items() if name not in self.trained}
        self.states = {name: optimizer.state.get(readable(name), {}) for name in self.trained}
        self.layers: list[Any] = list(hard_layers(self.model).values())
        self.drawing = [layer for layer in self.layers if isinstance(layer, StackedHardLayer)]
        self._state = list(leaves([self.trained, self.fixed, self.states]))
        self._forwards: dict[Phase, Forward] = {}
        self._codes: dict[tuple[Phase, bool], Code] = {}
        self._numbers: dict[str, tuple[Number, Tensor]] = {}

    def __call__(self, x: Tensor, y: Tensor, rates: list[float], logs: bool) -> Taken:
        """What came of it."""
        phase = self._phase(x)
        if phase not in self._forwards:
            self._forwards[phase] = self._forward(x)
        forward = self._forwards[phase]
        numbers = {key: self._tensor(key, value) for key, value in self.optimizer.numbers(rates).items()}
        noise = [layer.draw_ahead(asked) for layer, asked in zip(self.drawing, forward.asked, strict=True)]
        inputs = [*self._state, x, y, *numbers.values(), *leaves(noise)]
        if (phase, logs) not in self._codes:
            given = [self.trained, self.fixed, self.states, x, y, numbers, noise]
            facts = [phase, logs, self.clip_norm is not None, described(given)]
            self._codes[phase, logs] = kept(self.folder, facts, lambda: self._trace(given, logs), inputs)
        return self._named(iter(self._codes[phase, logs](inputs)), forward, logs)

    def _named(self, outputs: Iterator[Tensor], forward: Forward, logs: bool) -> Taken:
        """The outputs of `_step`."""
        losses, clipped = next(outputs), None if self.clip_norm is None else next(outputs)
        if not logs:
            return Taken(losses, clipped, {}, [])
        norms = {readable(name): next(outputs) for name in self.trained}
        readings = [replace(one, sums={key: next(outputs) for key in one.sums}) for one in forward.readings]
        return Taken(losses, clipped, norms, readings)

    def _phase(self, x: Tensor) -> Phase:
        """What may change during training and is part of the graph: sizes, and what hard layers have turned into."""
        layers = ((type(layer.acting).__name__, getattr(layer, "one_temperature", False)) for layer in self.layers)
        return tuple(x.shape), tuple(layers)

    def _forward(self, x: Tensor) -> Forward:
        """Found by a forward pass that changes nothing."""
        with torch.no_grad(), self.probe.watching():
            self.model(x)
        for layer in self.drawing:
            layer.draws = 0
        return Forward([layer.asked for layer in self.drawing], self.probe.measure())

    def _tensor(self, key: str, value: Number) -> Tensor:
        if isinstance(value, Tensor):
            return value
        if key not in self._numbers or self._numbers[key][0] != value:
            self._numbers[key] = value, torch.tensor(value, dtype=torch.float64, device=self.optimizer.device)
        return self._numbers[key][1]

    def _trace(self, given: list[Any], logs: bool) -> fx.GraphModule:
        """The step as a graph over its inputs."""

        def step(*inputs: Tensor) -> list[Tensor]:
            return self._step(*refilled(given, iter(inputs)), logs=logs)

        graph: fx.GraphModule = make_fx(step, tracing_mode="fake")(*leaves(given))
        return graph

    def _step(
        self,
        trained: State,
        fixed: State,
        states: dict[str, State],
        x: Tensor,
        y: Tensor,
        numbers: State,
        noise: list[list[Tensor]],
        *,
        logs: bool,
    ) -> list[Tensor]:
        weights = {name: tensor.detach().requires_grad_() for name, tensor in trained.items()}
        probe = LayerProbe(self.model, self.replicas)
        with taking(self.drawing, noise), probe.watching() if logs else nullcontext():
            logits = functional_call(self.model, {**weights, **fixed}, (x,))
        losses = cross_entropy.traced(logits, y, self.replicas)
        gradients = dict(zip(weights, torch.autograd.grad(losses.sum(), list(weights.values())), strict=True))
        said = [total for reading in probe.measure() for total in reading.sums.values()] if logs else []
        with torch.no_grad():
            if logs or self.clip_norm is not None:
                rows = [g.reshape(self.replicas, -1).to(torch.float64) for g in gradients.values()]
                norms = [(row * row).sum(1).sqrt() for row in rows]
                said = [*norms, *said] if logs else []
            if self.clip_norm is not None:
                factor, clipped = clip_factor(torch.stack(norms), self.clip_norm)
                for name, g in gradients.items():
                    gradients[name] = g * factor.to(g.dtype).view(-1, *(1 for _ in g.shape[1:]))
                said = [clipped, *said]
            for name, gradient in gradients.items():
                self.optimizer.update(trained[name], gradient, states[name], numbers)
        return [losses.detach(), *said]


def obstacle(model: nn.Module) -> str | None:
    """Why the training step of a stack of such models cannot be compiled, None if nothing is known."""
    buffers = sum(1 for _ in model.buffers())
    layers = hard_layers(stack([model])).values()
    if any(layer.strategy.noisy(layer.op) and not isinstance(layer, StackedHardLayer) for layer in layers):
        return "its noise is drawn within a layer that has weights"
    if buffers > sum(layer.temperature is not None for layer in layers):
        return "it changes buffers (batch norm) in training"
    return None
