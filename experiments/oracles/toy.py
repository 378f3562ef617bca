"""A toy on which straight-through stops at a predictable wrong point.

Minimise E mean_l |z_l - c|^q, z_l Bernoulli(p_l), c = 0.45. The optimum is p = 0. The mean of straight-through's
derivative is p (1 - p) q (p (1 - c)^(q-1) - (1 - p) c^(q-1)), so it stops at p* = c^(q-1) / (c^(q-1) + (1 - c)^(q-1)),
where the loss is p* (1 - c)^q + (1 - p*) c^q. It is the problem of REBAR and RELAX with other powers, as in ReinMax's
repository (Liu et al. 2023, arXiv 2304.08612).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from experiments.oracles.setting import stream
from surrogates.core import Strategy
from surrogates.hard_layer import HardLayer
from surrogates.ops.argmax import ArgMax
from surrogates.ops.heaviside import Heaviside
from surrogates.sampling.score_function import score_function
from surrogates.strategies.sampled import Sampled

C = 0.45
POWERS = (1.5, 2.0, 3.0)
LATENTS = 128
VALUES = torch.tensor([1.0, 0.5068, 0.0, 0.7385], dtype=torch.float64)  # Hooper & Shekhovtsov 2026, four categories


def stationary(q: float) -> float:
    """Returns the probability at which straight-through stops."""
    a, b = C ** (q - 1), (1 - C) ** (q - 1)
    return float(a / (a + b))


def loss_at(p: float, q: float) -> float:
    """Returns the expected loss if all latents have probability p; the best is `loss_at(0, q)`."""
    return float(p * (1 - C) ** q + (1 - p) * C**q)


def mean_slope(strategy: Strategy, theta: float, q: float, points: int = 100_000) -> float:
    """Computes the strategy's mean derivative of |z - c|^q by a bit's logit, by the midpoint rule over its noise."""
    x = torch.full((points,), theta, dtype=torch.float64, requires_grad=True)
    noise = (torch.arange(points, dtype=torch.float64) + 0.5) / points
    (slopes,) = torch.autograd.grad((strategy(Heaviside(), x, noise=noise) - C).abs().pow(q).sum(), x)
    return float(slopes.mean())


def train(strategy: Strategy | None, steps: int = 8000, batch: int = 64, lr: float = 2e-3, seed: int = 0) -> Tensor:
    """Trains with Adam from (-0.01, 0.01); returns each latent's exact expected loss after each step, for each power.

    The result is (steps, powers, LATENTS). The latents train independently of each other. A bit has one logit. Two
    logits a bit, as in ReinMax's repository, have opposite gradients, so under Adam their difference moves twice as
    fast: the rate here is twice the rate there.
    None is the score function with two samples, each the baseline of the other, so a batch has as many draws.
    """
    logits = 0.02 * torch.rand(len(POWERS), LATENTS, generator=stream(seed), dtype=torch.float64) - 0.01
    powers = torch.tensor(POWERS, dtype=torch.float64).view(-1, 1)
    parameter, optimizer = _optimizer(logits, lr)
    layer = HardLayer(Heaviside(), Sampled() if strategy is None else strategy)
    found = []
    for step in range(steps):
        layer.noise_key, layer.draws = (seed, step, 0), 0
        bits = lambda count: layer(parameter.expand(count, -1, -1))  # noqa: E731
        loss = _loss(bits, layer, powers, batch, strategy is None)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        p = torch.sigmoid(parameter.detach())
        found.append(p * (1 - C) ** powers + (1 - p) * C**powers)
    return torch.stack(found)


def final_losses(losses: Tensor, last: int = 200) -> Tensor:
    """Returns each latent's mean loss of the last steps, (powers, LATENTS)."""
    return losses[-last:].mean(0)


def trace(strategy: Strategy, epochs: int = 50, steps: int = 200, batch: int = 8, seed: int = 0) -> Tensor:
    """Trains four categories with `VALUES` by Adam 1e-3 from logits 0; returns loss by epoch (epochs, powers)."""
    parameter, optimizer = _optimizer(torch.zeros(len(POWERS), LATENTS, 4, dtype=torch.float64), 1e-3)
    powers = torch.tensor(POWERS, dtype=torch.float64).view(-1, 1)
    layer = HardLayer(ArgMax(), strategy)
    found = torch.zeros(epochs, len(POWERS), dtype=torch.float64)
    for step in range(epochs * steps):
        layer.noise_key, layer.draws = (seed, step, 0), 0
        z = layer(parameter.expand(batch, *parameter.shape)) @ VALUES
        losses = (z - C).abs().pow(powers).mean((0, 2))
        optimizer.zero_grad()
        losses.sum().backward()
        optimizer.step()
        found[step // steps] += losses.detach() / steps
    return found


def _loss(bits: Callable[[int], Tensor], layer: HardLayer, powers: Tensor, batch: int, by_score: bool) -> Tensor:
    if by_score:  # one loss for each latent, because latents are independent
        return score_function(lambda: (bits(batch // 2) - C).abs().pow(powers), layer).mean((0, 2)).sum()
    return (bits(batch) - C).abs().pow(powers).mean((0, 2)).sum()


def _optimizer(start: Tensor, lr: float) -> tuple[Tensor, torch.optim.Adam]:
    parameter = start.clone().requires_grad_()
    return parameter, torch.optim.Adam([parameter], lr=lr)
