"""A setting in which the exact gradient is known, and the gradients that a strategy gives there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from surrogates.core import Op

Act = Callable[..., Tensor]
Loss = Callable[[Act, Tensor, torch.Generator], Tensor]


def stream(seed: int) -> torch.Generator:
    """A generator of its own."""
    return torch.Generator().manual_seed(seed)


def normal(shape: tuple[int, ...], seed: int) -> Tensor:
    """Standard normal numbers in float64."""
    return torch.randn(shape, generator=stream(seed), dtype=torch.float64)


@dataclass(frozen=True)
class Setting:
    """truth = d/dx E[loss(hard(x + scale e))], e of law `kernel` (centred Gumbel for ops over a dim).

    `parameters` (n,) and `truth` (n,) are float64. `loss(act, rows, stream)` takes the op under a strategy, one copy of
    the parameters a draw (draws, n) and a generator for data; it returns a loss a draw, or one for each of its samples,
    (draws, samples), whose mean is meant (the score function has a baseline for each). The noise law and its scale
    are the setting's: whatever a strategy assumes, it is scored against this truth. `noisy` is false where the data
    alone make the expectation smooth.
    """

    name: str
    law: str  # in words, for the table
    op: Op
    parameters: Tensor
    truth: Tensor
    loss: Loss
    kernel: str = "logistic"
    scale: float = 1.0
    noisy: bool = True
    draws: int = 2000


def gradient(expected: Callable[[Tensor], Tensor], parameters: Tensor) -> Tensor:
    """The derivative of an expectation that is written out, by autograd."""
    x = parameters.clone().requires_grad_()
    return torch.autograd.grad(expected(x), x)[0]
