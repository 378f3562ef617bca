"""What passes through the hard layers of a stack, by replica."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from experiments.parameter_names import readable
from surrogates import hard_layers, mode

Keep = Callable[[str, str, Tensor], None]  # layer, in or out, tensor


class StackedProbe:
    """Watches the hard layers during one training step; the quantities are those of `experiments.layer_probe`."""

    def __init__(self, model: nn.Module, replicas: int) -> None:
        self.layers = {readable(name): layer for name, layer in hard_layers(model).items()}
        self.replicas = replicas
        self._seen: dict[str, dict[str, list[Tensor]]] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Records inputs and outputs of the forward pass in the block."""
        self._seen = {}
        with tapped(self.layers, self._keep):
            yield

    def _keep(self, name: str, where: str, tensor: Tensor) -> None:
        if tensor.requires_grad:
            tensor.retain_grad()
        self._seen.setdefault(name, {"in": [], "out": []})[where].append(tensor)

    def measure(self) -> tuple[list[str], list[Tensor]]:
        """Tags and tensors (R,) of the step that was watched."""
        tags, values = [], []
        for name, seen in self._seen.items():
            measured = {
                "grad_in_norm": self._norm(seen["in"]),
                "grad_out_norm": self._norm(seen["out"]),
                "zero_gradient_fraction": self._zero_fraction(seen["in"]),
            }
            saturated = [self.layers[name].op.saturated(given.detach()) for given in seen["in"]]
            outside = [self._rows(mask).double().mean(1) for mask in saturated if mask is not None]
            if outside:
                measured["saturated_fraction"] = torch.stack(outside).mean(0)
            tags += [f"op/{name}/{key}" for key in measured]
            values += list(measured.values())
        self._seen = {}
        return tags, values

    def _rows(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(self.replicas, -1)

    def _norm(self, tensors: list[Tensor]) -> Tensor:
        none = torch.zeros(self.replicas, dtype=torch.float64, device=tensors[0].device)
        norms = [
            none if t.grad is None else torch.linalg.vector_norm(self._rows(t.grad), dim=1, dtype=torch.float64)
            for t in tensors
        ]
        norm: Tensor = torch.linalg.vector_norm(torch.stack(norms), dim=0)
        return norm

    def _zero_fraction(self, tensors: list[Tensor]) -> Tensor:
        none = torch.ones(self.replicas, dtype=torch.float64, device=tensors[0].device)
        shares = [none if t.grad is None else (self._rows(t.grad) == 0).double().mean(1) for t in tensors]
        return torch.stack(shares).mean(0)


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


def _tap(x: Tensor, keep: Callable[[Tensor], None]) -> Tensor:
    if torch._C._are_functorch_transforms_active():
        seen: Tensor = _Tap.apply(x, keep)
        return seen
    keep(x)
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
        together = x if dims[0] == 0 else x.movedim(dims[0], 0)
        keep(together)
        return together.view_as(together), 0


def hard_outputs(model: nn.Module, x: Tensor, replicas: int) -> dict[str, Tensor]:
    """All hard outputs (R, n) of every hard layer for the samples x (B, ...), in evaluation."""
    outputs: dict[str, list[Tensor]] = {}

    def keep(name: str, where: str, tensor: Tensor) -> None:
        if where == "out":
            outputs.setdefault(readable(name), []).append(tensor.reshape(replicas, -1))

    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), mode(model, "hard"), tapped(hard_layers(model), keep):
            model(repeated(x, replicas))
    finally:
        model.train(was_training)
    return {name: torch.cat(calls, dim=1) for name, calls in outputs.items()}


def repeated(x: Tensor, replicas: int) -> Tensor:
    """The same samples (B, ...) for every replica, folded."""
    return x.expand(replicas, *x.shape).flatten(0, 1)
