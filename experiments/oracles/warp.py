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
    """A net of one hidden tanh layer with rounded weights (d H + H,), trained on a teacher of the same shape.

    Weights (nets, d H + H) are those of several nets, each with a teacher and samples of its own.
    """

    cell: Cell
    d: int = 8
    units: int = 16
    samples: int = 64

    def inputs(self, nets: torch.Size) -> Tensor:
        """Draws the samples (nets, samples, d)."""
        return normal((*nets, self.samples, self.d), 80)

    def predicted(self, weights: Tensor, x: Tensor) -> Tensor:
        """Computes the predictions (nets, samples)."""
        first = weights[..., : self.d * self.units].reshape(*weights.shape[:-1], self.d, self.units)
        second = weights[..., self.d * self.units :].unsqueeze(-1)
        outputs: Tensor = torch.tanh(x @ first / self.d**0.5) @ second / self.units**0.5
        return outputs.squeeze(-1)

    def gradient(self, w: Tensor, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the loss (nets,) at the rounded weights, and its gradient by them."""
        rounded = self.cell.rounded(w).requires_grad_()
        loss = 0.5 * (self.predicted(rounded, x) - target).square().mean(-1)
        return loss.detach(), torch.autograd.grad(loss.sum(), rounded)[0]

    def start(self, seed: int, *nets: int) -> Tensor:
        """Draws latent weights (nets, d H + H)."""
        return normal((*nets, self.d * self.units + self.units), seed)

    def train(
        self, w: Tensor, optimizer: Callable[[list[Tensor]], torch.optim.Optimizer], steps: int, rule: Rule
    ) -> Tensor:
        """Trains; returns rounded weights and loss after every step, (steps, nets, weights + 1)."""
        nets = w.shape[:-1]
        x = self.inputs(nets)
        target = self.predicted(self.start(81, *nets), x)
        w = w.clone().requires_grad_()
        made, found = optimizer([w]), []
        for _ in range(steps):
            loss, g = self.gradient(w.detach(), x, target)
            w.grad = rule(w.detach(), g)
            made.step()
            found.append(torch.cat([self.cell.rounded(w.detach()), loss.unsqueeze(-1)], -1))
        return torch.stack(found)


def straight_through(_: Tensor, g: Tensor) -> Tensor:
    """Returns the gradient at the rounded weights unchanged."""
    return g


def agreement(a: Tensor, b: Tensor) -> Tensor:
    """Returns each net's share of equal rounded weights, averaged over the second half of two trainings, (nets,)."""
    same = (a[..., :-1] - b[..., :-1]).abs() < 1e-9
    return same[len(same) // 2 :].double().mean((0, -1))
