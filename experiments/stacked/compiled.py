"""A stack's training step as one compiled function: forward, backward, clipping and optimizer in one graph.

The gradient is taken inside (torch.func.grad), so that the compiler fuses across forward and backward; two graphs, as
autograd would have them, hand each other masks that are slow to write.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call, grad
from torch.fx.experimental.proxy_tensor import make_fx

from experiments.parameter_names import readable
from experiments.stacked import cross_entropy
from experiments.stacked.code_cache import Code, kept
from experiments.stacked.layers import Asked, StackedHardLayer, stack, taking
from experiments.stacked.optimizers import Number, StackedOptimizer
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


class CompiledStep:
    """`step(x, y, rates)` advances a stack's parameters and its optimizer's state in place.

    `reached` are the parameters that receive gradients, by their logged names; the optimizer has a state of each. Noise
    is drawn beforehand. It does not change buffers; `obstacle` says why a model cannot have one. `folder` holds the
    code of such steps, see `code_cache`.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: StackedOptimizer,
        reached: set[str],
        clip_norm: float | None,
        replicas: int,
        folder: Path,
    ) -> None:
        self.model, self.optimizer, self.clip_norm = model, optimizer, clip_norm
        self.replicas, self.folder = replicas, folder
        everything = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        self.trained = {name: tensor.detach() for name, tensor in everything.items() if readable(name) in reached}
        self.fixed = {name: tensor.detach() for name, tensor in everything.items() if name not in self.trained}
        self.states = {name: optimizer.state.get(readable(name), {}) for name in self.trained}
        self.layers: list[Any] = list(hard_layers(model).values())
        self.drawing = [layer for layer in self.layers if isinstance(layer, StackedHardLayer)]
        self._state = list(leaves([self.trained, self.fixed, self.states]))
        self._asked: dict[Phase, list[tuple[Asked, ...]]] = {}
        self._codes: dict[Phase, Code] = {}
        self._numbers: dict[str, tuple[Number, Tensor]] = {}

    def __call__(self, x: Tensor, y: Tensor, rates: list[float]) -> tuple[Tensor, Tensor | None]:
        """The losses (R,), and whose gradients were clipped (R,) if any can be."""
        phase = self._phase(x)
        if phase not in self._asked:
            self._asked[phase] = self._noise_of(x)
        numbers = {key: self._tensor(key, value) for key, value in self.optimizer.numbers(rates).items()}
        noise = [layer.draw_ahead(asked) for layer, asked in zip(self.drawing, self._asked[phase], strict=True)]
        inputs = [*self._state, x, y, *numbers.values(), *leaves(noise)]
        if phase not in self._codes:
            given = [self.trained, self.fixed, self.states, x, y, numbers, noise]
            facts = [phase, self.clip_norm is not None, described(given)]
            self._codes[phase] = kept(self.folder, facts, lambda: self._trace(given), inputs)
        losses, *clipped = self._codes[phase](inputs)
        return losses, clipped[0] if clipped else None

    def _phase(self, x: Tensor) -> Phase:
        """What may change during training and is part of the graph: sizes, and what hard layers have turned into."""
        layers = ((type(layer.acting).__name__, getattr(layer, "one_temperature", False)) for layer in self.layers)
        return tuple(x.shape), tuple(layers)

    def _noise_of(self, x: Tensor) -> list[tuple[Asked, ...]]:
        """What noise a forward pass takes, found by one that changes nothing."""
        with torch.no_grad():
            self.model(x)
        for layer in self.drawing:
            layer.draws = 0
        return [layer.asked for layer in self.drawing]

    def _tensor(self, key: str, value: Number) -> Tensor:
        if isinstance(value, Tensor):
            return value
        if key not in self._numbers or self._numbers[key][0] != value:
            self._numbers[key] = value, torch.tensor(value, dtype=torch.float64)
        return self._numbers[key][1]

    def _trace(self, given: list[Any]) -> fx.GraphModule:
        """The step as a graph over its inputs."""

        def step(*inputs: Tensor) -> list[Tensor]:
            return self._step(*refilled(given, iter(inputs)))

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
    ) -> list[Tensor]:
        def loss(trained: State) -> tuple[Tensor, Tensor]:
            with taking(self.drawing, noise):
                logits = functional_call(self.model, {**trained, **fixed}, (x,))
            losses = cross_entropy.traced(logits, y, self.replicas)
            return losses.sum(), losses

        gradients, losses = grad(loss, has_aux=True)(trained)
        clipped = []
        if self.clip_norm is not None:
            rows = [g.reshape(self.replicas, -1).to(torch.float64) for g in gradients.values()]
            factor, whose = clip_factor(torch.stack([(row * row).sum(1).sqrt() for row in rows]), self.clip_norm)
            gradients = {
                name: g * factor.to(g.dtype).view(-1, *(1 for _ in g.shape[1:])) for name, g in gradients.items()
            }
            clipped = [whose]
        for name, gradient in gradients.items():
            self.optimizer.update(trained[name], gradient, states[name], numbers)
        return [losses, *clipped]


def leaves(tree: Any) -> Iterator[Tensor]:
    """The tensors of nested dicts and lists, in order."""
    if isinstance(tree, Tensor):
        yield tree
    else:
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(part)


def refilled(tree: Any, tensors: Iterator[Tensor]) -> Any:
    """The same nested dicts and lists with other tensors."""
    if isinstance(tree, Tensor):
        return next(tensors)
    if isinstance(tree, dict):
        return {key: refilled(part, tensors) for key, part in tree.items()}
    return [refilled(part, tensors) for part in tree]


def described(tree: Any) -> Any:
    """The names, types, shapes and strides of tensors in nested dicts and lists."""
    if isinstance(tree, Tensor):
        return [str(tree.dtype), list(tree.shape), list(tree.stride())]
    if isinstance(tree, dict):
        return {key: described(part) for key, part in tree.items()}
    return [described(part) for part in tree]


def obstacle(model: nn.Module) -> str | None:
    """Why the training step of a stack of such models cannot be compiled, None if nothing is known."""
    buffers = sum(1 for _ in model.buffers())
    layers = hard_layers(stack([model])).values()
    if any(layer.strategy.noisy(layer.op) and not isinstance(layer, StackedHardLayer) for layer in layers):
        return "its noise is drawn within a layer that has weights"
    if buffers > sum(layer.temperature is not None for layer in layers):
        return "it changes buffers (batch norm) in training"
    return None
