"""Collects inputs and outputs of the hard layers of one model or of a stack, also inside vmap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from experiments.measuring.parameter_names import readable
from surrogates import hard_layers, mode
from surrogates.hard_layer import Mode

Keep = Callable[[str, str, Tensor], None]  # layer's readable name, in or out, tensor


@contextmanager
def tap(model: nn.Module, keep: Keep) -> Iterator[None]:
    """Passes first input and output of every hard layer to `keep`; those of a stack are folded, or (R, B, ...)."""

    def before(name: str) -> Any:
        return lambda module, inputs: (_tap(inputs[0], partial(keep, name, "in")), *inputs[1:])

    def after(name: str) -> Any:
        return lambda module, inputs, output: _tap(output, partial(keep, name, "out"))

    hooks = []
    for name, layer in hard_layers(model).items():
        hooks.append(layer.register_forward_pre_hook(before(readable(name))))
        hooks.append(layer.register_forward_hook(after(readable(name))))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def layer_inputs(model: nn.Module, x: Tensor, how: Mode) -> dict[str, tuple[Tensor, ...]]:
    """Returns by layer all inputs of its last call while the model computes x."""
    given: dict[str, tuple[Tensor, ...]] = {}

    def keep(name: str) -> Any:
        return lambda module, inputs: given.update({name: tuple(value.detach() for value in inputs)})

    hooks = [layer.register_forward_pre_hook(keep(name)) for name, layer in hard_layers(model).items()]
    try:
        with torch.no_grad(), mode(model, how):
            model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return given


def _tap(x: Tensor, keep: Callable[[Tensor], None]) -> Tensor:
    """Returns a view of x; keeps the tensor of all replicas under vmap, else x."""
    batched: list[Tensor] = []
    view: Tensor = _Tap.apply(x, batched.append)
    keep(batched[0] if batched else x)
    return view


class _Tap(torch.autograd.Function):
    """A view of x; its batching rule, which only vmap runs, receives the tensor of all replicas."""

    @staticmethod
    def forward(x: Tensor, keep: Any) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None

    @staticmethod
    def vmap(info: Any, dims: Any, x: Tensor, keep: Any) -> tuple[Tensor, int]:
        rows = x if dims[0] == 0 else x.movedim(dims[0], 0)
        keep(rows)
        return rows.view_as(rows), 0
