"""A setting whose exact gradient is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from surrogates.core import Op

Act = Callable[..., Tensor]
Loss = Callable[[Act, Tensor, torch.Generator], Tensor]


def stream(seed: int) -> torch.Generator:
    """Makes a random generator from a seed."""
    return torch.Generator().manual_seed(seed)


def normal(shape: tuple[int, ...], seed: int) -> Tensor:
    """Draws standard normal numbers in float64."""
    return torch.randn(shape, generator=stream(seed), dtype=torch.float64)


@dataclass(frozen=True)
class Setting:
    """truth = d/dx E[loss(hard(x + scale e))], e of law `kernel` (centred Gumbel for ops over a dim).

    `parameters` (n,) and `truth` (n,) are float64. The setting fixes the noise law and its scale: every strategy is
    scored against this truth, whatever it assumes. `noisy` is false if the data alone make the expectation smooth.

    `loss(act, rows, stream)` takes the op under a strategy, one copy of the parameters for each draw (draws, n), and a
    generator for data. It returns one loss for each draw, (draws,), or one for each of its samples, (draws, samples),
    to be averaged (the score function has a baseline for each).
    """

    name: str
    law: str  # the noise law in words, for the table
    op: Op
    parameters: Tensor
    truth: Tensor
    loss: Loss
    kernel: str = "logistic"
    scale: float = 1.0
    noisy: bool = True
    draws: int = 2000


def gradient(expected: Callable[[Tensor], Tensor], parameters: Tensor) -> Tensor:
    """Differentiates an expectation that is written out, by autograd."""
    x = parameters.clone().requires_grad_()
    return torch.autograd.grad(expected(x), x)[0]
