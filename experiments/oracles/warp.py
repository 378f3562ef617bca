"""Compares weight rounding under a periodic derivative with straight-through in other coordinates.

A weight w rounded to multiples of D, its gradient g(Q(w)) multiplied by q(w) = 1 - tanh^2(k r), r = w / D - 1/2 -
floor(w / D) the distance from the nearest jump in steps (the slope of DSQ's step: Gong et al. 2019, arXiv 1908.05033).
With a = 1 / mean(1 / q) = 2 k / (k + sinh k) over a cell and

M(w) = b + a D (r / 2 + sinh(2 k r) / (4 k)),  b the nearest jump,

which is monotone and keeps every jump in its place, dw/dt = -q(w) g(Q(w)) becomes dM(w)/dt = -a g(Q(M(w))): plain
straight-through with its rate multiplied by a (Schoenbauer et al. 2024, arXiv 2405.05171). This holds for weights only,
and if q > 0 everywhere; with steps of size h the two differ by O(h^2) a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.oracles.setting import normal
from surrogates.ops.round import Round

Rule = Callable[[Tensor, Tensor], Tensor]  # (latent weights, gradient at the rounded ones) to the latent's gradient


@dataclass(frozen=True)
class Cell:
    """The size of a rounding step, `width`, and the steepness k of the derivative."""

    width: float = 0.25
    k: float = 5.0

    def rounded(self, w: Tensor) -> Tensor:
        """Rounds to the nearest multiple of the width."""
        return self.width * Round().hard(w / self.width)

    def slope(self, w: Tensor) -> Tensor:
        """q(w)."""
        return 1 - torch.tanh(self.k * self._from_jump(w)) ** 2

    @property
    def rate(self) -> float:
        """The factor a of the learning rate."""
        return 2 * self.k / (self.k + math.sinh(self.k))

    def warp(self, w: Tensor) -> Tensor:
        """M(w)."""
        r = self._from_jump(w)
        return w + self.width * (self.rate * (r / 2 + torch.sinh(2 * self.k * r) / (4 * self.k)) - r)

    def _from_jump(self, w: Tensor) -> Tensor:
        return w / self.width - torch.floor(w / self.width) - 0.5


@dataclass(frozen=True)
class Regression:
    """A net of one hidden tanh layer with rounded weights (d H + H,), trained on a teacher of the same shape."""

    cell: Cell
    d: int = 8
    units: int = 16
    samples: int = 64

    def predicted(self, weights: Tensor) -> Tensor:
        """Computes the predictions for the samples."""
        first, second = weights[: self.d * self.units].view(self.d, self.units), weights[self.d * self.units :]
        outputs: Tensor = (
            torch.tanh(normal((self.samples, self.d), 80) @ first / self.d**0.5) @ second / self.units**0.5
        )
        return outputs

    def gradient(self, w: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the loss at the rounded weights, and its gradient by them."""
        rounded = self.cell.rounded(w).requires_grad_()
        loss = 0.5 * (self.predicted(rounded) - target).square().mean()
        return loss.detach(), torch.autograd.grad(loss, rounded)[0]

    def start(self, seed: int) -> Tensor:
        """Draws latent weights."""
        return normal((self.d * self.units + self.units,), seed)

    def train(
        self, w: Tensor, optimizer: Callable[[list[Tensor]], torch.optim.Optimizer], steps: int, rule: Rule
    ) -> Tensor:
        """Trains; returns rounded weights and loss after every step, (steps, weights + 1)."""
        target = self.predicted(self.start(81))
        w = w.clone().requires_grad_()
        made, found = optimizer([w]), []
        for _ in range(steps):
            loss, g = self.gradient(w.detach(), target)
            w.grad = rule(w.detach(), g)
            made.step()
            found.append(torch.cat([self.cell.rounded(w.detach()), loss.view(1)]))
        return torch.stack(found)


def straight_through(_: Tensor, g: Tensor) -> Tensor:
    """Returns the gradient at the rounded weights unchanged."""
    return g


def agreement(a: Tensor, b: Tensor) -> float:
    """Returns the share of equal rounded weights, averaged over the second half of two trainings."""
    same = (a[:, :-1] - b[:, :-1]).abs() < 1e-9
    return float(same[len(same) // 2 :].double().mean())
