"""What passes through the hard layers of a stack, by replica."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from surrogates import hard_layers, mode

Keep = Callable[[str, str, Tensor, bool], None]  # layer, in or out, tensor, whether it is folded


class StackedProbe:
    """Watches the hard layers during one training step; the quantities are those of `experiments.layer_probe`."""

    def __init__(self, model: nn.Module, replicas: int) -> None:
        self.layers, self.replicas = hard_layers(model), replicas
        self._seen: dict[str, dict[str, Tensor]] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Records inputs and outputs of the forward pass in the block."""
        self._seen = {}
        with tapped(self.layers, self._keep):
            yield

    def _keep(self, name: str, where: str, tensor: Tensor, folded: bool) -> None:
        if tensor.requires_grad:
            tensor.retain_grad()
        self._seen.setdefault(name, {})[where] = tensor

    def measure(self) -> tuple[list[str], list[Tensor]]:
        """Tags and tensors (R,) of the step that was watched."""
        tags, values = [], []
        for name, seen in self._seen.items():
            given, output = seen["in"], seen["out"]
            measured = {
                "grad_in_norm": self._norm(given),
                "grad_out_norm": self._norm(output),
                "zero_gradient_fraction": self._zero_fraction(given),
            }
            saturated = self.layers[name].op.saturated(given.detach())
            if saturated is not None:
                measured["saturated_fraction"] = self._rows(saturated).double().mean(1)
            tags += [f"op/{name}/{key}" for key in measured]
            values += list(measured.values())
        self._seen = {}
        return tags, values

    def _rows(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(self.replicas, -1)

    def _norm(self, tensor: Tensor) -> Tensor:
        if tensor.grad is None:
            return torch.zeros(self.replicas, dtype=torch.float64, device=tensor.device)
        norm: Tensor = torch.linalg.vector_norm(self._rows(tensor.grad), dim=1, dtype=torch.float64)
        return norm

    def _zero_fraction(self, tensor: Tensor) -> Tensor:
        if tensor.grad is None:
            return torch.ones(self.replicas, dtype=torch.float64, device=tensor.device)
        return (self._rows(tensor.grad) == 0).double().mean(1)


@contextmanager
def tapped(layers: dict[str, Any], keep: Keep) -> Iterator[None]:
    """Hands `keep` the first input and the output of every layer, folded or (R, B, ...), from inside vmap too."""

    def before(name: str) -> Any:
        return lambda module, inputs: (_tap(inputs[0], partial(keep, name, "in")), *inputs[1:])

    def after(name: str) -> Any:
        return lambda module, inputs, output: _tap(output, partial(keep, name, "out"))

    hooks = []
    for name, layer in layers.items():
        hooks += [layer.register_forward_pre_hook(before(name)), layer.register_forward_hook(after(name))]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _tap(x: Tensor, keep: Callable[[Tensor, bool], None]) -> Tensor:
    if torch._C._are_functorch_transforms_active():
        seen: Tensor = _Tap.apply(x, keep)
        return seen
    keep(x, True)
    return x


class _Tap(torch.autograd.Function):
    """x; its batching rule is where the tensor of all replicas can be had, in autograd's own graph."""

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
        together = x.movedim(dims[0], 0)
        together = together.view_as(together)
        keep(together, False)
        return together, 0


def hard_outputs(model: nn.Module, x: Tensor, replicas: int) -> dict[str, Tensor]:
    """The hard outputs (R, B, ...) of every hard layer for the samples x (B, ...), in evaluation."""
    outputs: dict[str, Tensor] = {}

    def keep(name: str, where: str, tensor: Tensor, folded: bool) -> None:
        if where == "out":
            outputs[name] = torch.unflatten(tensor, 0, (replicas, -1)) if folded else tensor

    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), mode(model, "hard"), tapped(hard_layers(model), keep):
            model(repeated(x, replicas))
    finally:
        model.train(was_training)
    return outputs


def repeated(x: Tensor, replicas: int) -> Tensor:
    """The same samples (B, ...) for every replica, folded."""
    return x.expand(replicas, *x.shape).flatten(0, 1)
