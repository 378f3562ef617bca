"""Copies the weights, the batch and the noise of the next step, in float64."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.measuring.parameter_names import trained_parameters
from experiments.measuring.taps import tap
from surrogates import hard_layers, key_noise, mode

DRAWS = 8  # draws of the noise over which the gradient of a noisy strategy is averaged


@dataclass(frozen=True)
class Hard:
    """The loss with hard ops, and all outputs of the hard layers in one vector."""

    loss: float
    outputs: Tensor

    def flips(self, other: Hard) -> int:
        """Counts the outputs that differ."""
        return int((self.outputs != other.outputs).sum())


class Point:
    """The loss at theta and around it, for a model after `step` steps and a batch x (B, ...), y (B,).

    theta is the vector (n,) of all trained parameters, float64, in the order of `names`. Batch norm takes the batch's
    own statistics, as in training.
    """

    def __init__(self, model: nn.Module, x: Tensor, y: Tensor, seed: int, step: int) -> None:
        self.model = copy.deepcopy(model).double().train()
        self.x, self.y, self.seed, self.step = x.double() if x.is_floating_point() else x, y, seed, step
        self.parameters = trained_parameters(self.model)
        self.theta = torch.cat([parameter.detach().flatten() for parameter in self.parameters.values()])

    @property
    def noisy(self) -> bool:
        """Whether the strategy draws noise at this step."""
        return any(layer.acting.noisy(layer.op) for layer in hard_layers(self.model).values())

    def gradient(self) -> Tensor:
        """Computes the strategy's gradient (n,); with noise the mean over DRAWS draws, the first is the next step's."""
        key_noise(self.model, self.seed, self.step + 1)
        draws = DRAWS if self.noisy else 1
        total = torch.zeros_like(self.theta)
        for _ in range(draws):
            loss = F.cross_entropy(self.model(self.x), self.y)
            parts = torch.autograd.grad(loss, list(self.parameters.values()), allow_unused=True, materialize_grads=True)
            total += torch.cat([part.flatten() for part in parts])
        return total / draws

    def hard(self, offset: Tensor | None = None) -> Hard:
        """Computes the hard loss at theta + offset."""
        outputs: list[Tensor] = []

        def keep(name: str, where: str, tensor: Tensor) -> None:
            if where == "out":
                outputs.append(tensor.flatten())

        with torch.no_grad(), mode(self.model, "hard"), tap(self.model, keep):
            self._move(self.theta if offset is None else self.theta + offset)
            loss = float(F.cross_entropy(self.model(self.x), self.y))
            self._move(self.theta)
        return Hard(loss, torch.cat(outputs) if outputs else self.theta.new_zeros(0))

    def _move(self, theta: Tensor) -> None:
        start = 0
        for parameter in self.parameters.values():
            parameter.copy_(theta[start : start + parameter.numel()].view_as(parameter))
            start += parameter.numel()
