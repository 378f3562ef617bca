"""Measures gradients and inputs of the hard layers in a training step, of one model or of a stack of replicas."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from experiments.measuring.parameter_names import readable
from experiments.measuring.taps import tap
from surrogates import hard_layers


@dataclass
class Passage:
    """An input or output of a layer, and the gradient of the loss there; None if it received none."""

    tensor: Tensor
    gradient: Tensor | None = None

    def receive(self, gradient: Tensor) -> None:
        """Keeps the gradient without the copy that `retain_grad` makes."""
        self.gradient = gradient.detach()

    @property
    def derivative(self) -> Tensor:
        """Returns the gradient, 0 if there is none."""
        return self.tensor.new_zeros(()).expand_as(self.tensor) if self.gradient is None else self.gradient


@dataclass(frozen=True)
class Reading:
    """Sums over a layer's inputs and outputs, (R,) each; `tags` makes the logged values of their numbers.

    g is the loss's gradient at the layer's input, of `inputs` numbers, and h the one at its output.
    `in_square` = <g, g>, `out_square` = <h, h>, `product` = <g, h> if the shapes agree, `nonzero` = #{g != 0},
    `inside` = #{x in the op's range} if the op has one. If there is a `scale`, the loss was multiplied by it.
    """

    name: str
    inputs: int
    sums: dict[str, Tensor]

    def tags(self, numbers: Sequence[float]) -> dict[str, float]:
        """Returns the tags of a replica, from its numbers in the order of `sums`."""
        sums = dict(zip(self.sums, numbers, strict=True))
        scale = sums.get("scale", 1.0)
        grad_in, grad_out = math.sqrt(sums["in_square"]) / scale, math.sqrt(sums["out_square"]) / scale
        tags = {
            "grad_in_norm": grad_in,
            "grad_out_norm": grad_out,
            "grad_ratio": grad_in / grad_out if grad_out else 0.0,
            "zero_gradient_fraction": 1.0 - sums["nonzero"] / max(1, self.inputs),
        }
        if "product" in sums:
            tags["effective_slope"] = sums["product"] / sums["out_square"] if sums["out_square"] else 0.0
        if "inside" in sums:
            tags["saturated_fraction"] = 1.0 - sums["inside"] / max(1, self.inputs)
        return {f"op/{self.name}/{key}": value for key, value in tags.items()}


class LayerProbe:
    """Watches the hard layers of a model, or of a stack of `replicas`, during one training step.

    - `grad_out_norm` |h| and `grad_in_norm` |g|: norms of the loss's gradient at a layer's output and at its input
    - `grad_ratio` |g| / |h|
    - `effective_slope` <g, h> / <h, h>: the multiple of h nearest to g, if shapes agree; of an elementwise op the mean
      derivative at these inputs, weighted with h^2
    - `zero_gradient_fraction`: the share of inputs whose gradient is exactly 0
    - `saturated_fraction`: the share of inputs outside the op's range, if it has one

    Ratio and slope are 0 if h is 0. If a step applies a layer several times, all applications are summed.
    Sums are in float64: squares of float32 numbers would vanish below 1e-23.
    """

    def __init__(self, model: nn.Module, replicas: int = 1) -> None:
        self.model, self.replicas = model, replicas
        self.layers = {readable(name): layer for name, layer in hard_layers(model).items()}
        self._seen: dict[str, dict[str, list[Passage]]] = {}
        self._handles: list[RemovableHandle] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches the forward pass in the block, and the backward pass that follows."""
        self._forget()
        with tap(self.model, self._keep):
            yield

    def _keep(self, name: str, where: str, tensor: Tensor) -> None:
        if not torch.is_grad_enabled():  # an evaluation between two training steps
            return
        passage = Passage(tensor.detach())
        if tensor.requires_grad:
            self._handles.append(tensor.register_hook(passage.receive))  # type: ignore[no-untyped-call]
        self._seen.setdefault(name, {"in": [], "out": []})[where].append(passage)

    def measure(self, scale: Tensor | None = None) -> list[Reading]:
        """Returns the readings of the watched step; call it before anything changes the gradients."""
        readings = [self._reading(name, seen["in"], seen["out"], scale) for name, seen in self._seen.items()]
        self._forget()
        return readings

    def _forget(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles, self._seen = [], {}

    def _reading(self, name: str, entered: list[Passage], left: list[Passage], scale: Tensor | None) -> Reading:
        bounds = self.layers[name].op.range
        values = [] if bounds is None else [passage.tensor for passage in entered]
        rows = self._rows([passage.derivative for passage in (*entered, *left)] + values).double()
        inputs, outputs = (sum(passage.tensor.numel() for passage in some) // self.replicas for some in (entered, left))
        sums = self._squares(rows[:, : inputs + outputs], inputs)
        sums["nonzero"] = torch.linalg.vector_norm(rows[:, :inputs], 0, dim=1)
        if bounds is not None:
            x = rows[:, inputs + outputs :]
            low, high = torch.tensor(bounds, dtype=entered[0].tensor.dtype).tolist()  # in the dtype of the op's input
            sums["inside"] = (x == x.clamp(low, high)).sum(1)
        if scale is not None:
            sums["scale"] = scale.expand(self.replicas)
        return Reading(name, inputs, sums)

    def _rows(self, tensors: list[Tensor]) -> Tensor:
        """Stacks all numbers by replica, (R, n), with one kernel, also if tensors are not contiguous."""
        own = [self._by_replica(tensor) for tensor in tensors]
        if all(tensor.shape == own[0].shape for tensor in own):
            return torch.stack(own, dim=1).reshape(self.replicas, -1)
        return torch.cat([tensor.reshape(self.replicas, -1) for tensor in own], dim=1)

    def _by_replica(self, x: Tensor) -> Tensor:
        """Reshapes to (R, ...) a single model's x, a folded (R B, ...), or the (R, ...) of vmap."""
        if self.replicas == 1:
            return x.unsqueeze(0)
        return x if len(x) == self.replicas else torch.unflatten(x, 0, (self.replicas, -1))

    def _squares(self, gradients: Tensor, inputs: int) -> dict[str, Tensor]:
        """Sums squares and products from (R, inputs + outputs), by one matrix product if both have as many numbers."""
        if gradients.shape[1] != 2 * inputs:
            g, h = gradients[:, :inputs], gradients[:, inputs:]
            return {"in_square": _gram(g.unsqueeze(1)).flatten(), "out_square": _gram(h.unsqueeze(1)).flatten()}
        gram = _gram(torch.unflatten(gradients, 1, (2, inputs)))
        return {"in_square": gram[:, 0, 0], "product": gram[:, 0, 1], "out_square": gram[:, 1, 1]}


def _gram(rows: Tensor) -> Tensor:
    """Computes all products (R, k, k) of k vectors (R, k, n)."""
    return torch.bmm(rows, rows.transpose(1, 2))


def by_tag(readings: Sequence[Reading], numbers: Sequence[float]) -> dict[str, float]:
    """Returns the tags of a replica, from its numbers in the order of the readings' sums."""
    tags: dict[str, float] = {}
    start = 0
    for reading in readings:
        end = start + len(reading.sums)
        tags |= reading.tags(numbers[start:end])
        start = end
    return tags
