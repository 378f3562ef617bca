"""What passes through a model's hard layers: gradients in and out, saturation, flipped decisions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from experiments.parameter_names import readable
from surrogates import hard_layers, mode


class LayerProbe:
    """Watches the hard layers during one training step.

    `grad_out_norm` is the norm of the loss's gradient at a layer's output, `grad_in_norm` at its input, after the op;
    `zero_gradient_fraction` the share of inputs whose gradient is exactly 0; `saturated_fraction` the share of inputs
    outside the op's range, where it has one. Of a layer that is applied several times in a step all applications count
    together.
    """

    def __init__(self, model: nn.Module) -> None:
        self.layers = {readable(name): layer for name, layer in hard_layers(model).items()}
        self._seen: dict[str, list[tuple[Tensor, Tensor]]] = {}

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
            self._seen.setdefault(name, []).append((inputs[0], output))

        return record

    def measure(self, scale: float = 1.0) -> tuple[list[str], list[Tensor]]:
        """Tags and 0-d tensors of the step that was watched; gradients are divided by `scale`."""
        tags, values = [], []
        for name, calls in self._seen.items():
            given, output = zip(*calls, strict=True)
            measured = {
                "grad_in_norm": _norm(given) / scale,
                "grad_out_norm": _norm(output) / scale,
                "zero_gradient_fraction": _zero_fraction(given),
            }
            saturated = [self.layers[name].op.saturated(tensor.detach()) for tensor in given]
            outside = [mask.double().mean() for mask in saturated if mask is not None]
            if outside:
                measured["saturated_fraction"] = torch.stack(outside).mean()
            tags += [f"op/{name}/{key}" for key in measured]
            values += list(measured.values())
        self._seen.clear()
        return tags, values


def _norm(tensors: tuple[Tensor, ...]) -> Tensor:
    """The norm of the tensors' gradients together; one without a gradient counts as 0."""
    none = torch.zeros((), dtype=torch.float64, device=tensors[0].device)
    norms = [none if t.grad is None else torch.linalg.vector_norm(t.grad, dtype=torch.float64) for t in tensors]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return norm


def _zero_fraction(tensors: tuple[Tensor, ...]) -> Tensor:
    """The share of the tensors' numbers whose gradient is 0, all of them without one."""
    none = torch.ones((), dtype=torch.float64, device=tensors[0].device)
    return torch.stack([none if t.grad is None else (t.grad == 0).double().mean() for t in tensors]).mean()


def hard_outputs(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """All hard outputs of every hard layer for a batch, without gradients and in evaluation; changes nothing."""
    outputs: dict[str, list[Tensor]] = {}
    was_training = model.training

    def keep(name: str) -> Any:
        return lambda module, inputs, output: outputs.setdefault(readable(name), []).append(output.detach())

    hooks = [layer.register_forward_hook(keep(name)) for name, layer in hard_layers(model).items()]
    model.eval()  # batch norm must not learn from these samples
    try:
        with torch.no_grad(), mode(model, "hard"):
            model(x)
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return {name: torch.cat([output.flatten() for output in calls]) for name, calls in outputs.items()}


def flip_rates(before: dict[str, Tensor], now: dict[str, Tensor]) -> dict[str, float]:
    """The share of each hard layer's outputs that changed, by tag."""
    return {f"op/{name}/flip_rate": float((now[name] != before[name]).float().mean()) for name in before}
