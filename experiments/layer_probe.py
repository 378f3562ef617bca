"""What passes through a model's hard layers: gradients in and out, saturation, flipped decisions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from surrogates import hard_layers, mode


class LayerProbe:
    """Watches the hard layers during one training step.

    `grad_out_norm` is the norm of the loss's gradient at a layer's output, `grad_in_norm` at its input, after the op;
    `zero_gradient_fraction` the share of inputs whose gradient is exactly 0; `saturated_fraction` the share of inputs
    outside the op's range, where it has one.
    """

    def __init__(self, model: nn.Module) -> None:
        self.layers = hard_layers(model)
        self._seen: dict[str, tuple[Tensor, Tensor]] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Records inputs and outputs of the forward pass in the block."""
        self._seen.clear()
        hooks = [layer.register_forward_hook(self._hook(name)) for name, layer in self.layers.items()]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _hook(self, name: str) -> Any:
        def record(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            for tensor in (inputs[0], output):
                if tensor.requires_grad:
                    tensor.retain_grad()
            self._seen[name] = (inputs[0], output)

        return record

    def measure(self, scale: float = 1.0) -> tuple[list[str], list[Tensor]]:
        """Tags and 0-d tensors of the step that was watched; gradients are divided by `scale`."""
        tags, values = [], []
        for name, (given, output) in self._seen.items():
            measured = {
                "grad_in_norm": _norm(given) / scale,
                "grad_out_norm": _norm(output) / scale,
                "zero_gradient_fraction": _zero_fraction(given),
            }
            saturated = self.layers[name].op.saturated(given.detach())
            if saturated is not None:
                measured["saturated_fraction"] = saturated.double().mean()
            tags += [f"op/{name}/{key}" for key in measured]
            values += list(measured.values())
        self._seen.clear()
        return tags, values


def _norm(tensor: Tensor) -> Tensor:
    """The norm of a tensor's gradient, 0 without one."""
    if tensor.grad is None:
        return torch.zeros((), dtype=torch.float64, device=tensor.device)
    norm: Tensor = torch.linalg.vector_norm(tensor.grad, dtype=torch.float64)
    return norm


def _zero_fraction(tensor: Tensor) -> Tensor:
    """The share of a tensor's numbers whose gradient is 0, all of them without one."""
    if tensor.grad is None:
        return torch.ones((), dtype=torch.float64, device=tensor.device)
    return (tensor.grad == 0).double().mean()


def hard_outputs(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """The hard outputs of every hard layer for a batch, without gradients and in evaluation; changes nothing."""
    outputs: dict[str, Tensor] = {}
    was_training = model.training

    def keep(name: str) -> Any:
        return lambda module, inputs, output: outputs.__setitem__(name, output.detach())

    hooks = [layer.register_forward_hook(keep(name)) for name, layer in hard_layers(model).items()]
    model.eval()  # batch norm must not learn from these samples
    try:
        with torch.no_grad(), mode(model, "hard"):
            model(x)
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return outputs


def flip_rates(before: dict[str, Tensor], now: dict[str, Tensor]) -> dict[str, float]:
    """The share of each hard layer's outputs that changed, by tag."""
    return {f"op/{name}/flip_rate": float((now[name] != before[name]).float().mean()) for name in before}
