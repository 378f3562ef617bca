"""Sparse recovery with a planted support: y = A x with k entries of x not 0; which k? For methods: `support_search`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from experiments.oracles.setting import normal, stream
from surrogates.ops.top_k_mask import TopKMask


@dataclass(frozen=True)
class Problems:
    """A (trials, m, n) with columns of length 1, y (trials, m), the planted support (trials, n) of k ones."""

    a: Tensor
    y: Tensor
    support: Tensor
    k: int

    @cached_property
    def step(self) -> Tensor:
        """Step size s of each trial, (trials, 1)."""
        size: Tensor = torch.linalg.matrix_norm(self.a, 2).unsqueeze(-1) ** -2
        return size

    def slope(self, x: Tensor) -> Tensor:
        """A'(A x - y)."""
        return (self.a.mT @ self._left(x).unsqueeze(-1)).squeeze(-1)

    def residual(self, x: Tensor) -> Tensor:
        """|A x - y|, by trial."""
        size: Tensor = torch.linalg.vector_norm(self._left(x), dim=-1)
        return size

    def least_squares(self, support: Tensor) -> Tensor:
        """Solves the least squares on supports (trials, n) of equal size."""
        where = support.nonzero()[:, 1].view(len(support), -1)
        columns = self.a.gather(2, where.unsqueeze(1).expand(-1, self.a.shape[1], -1))
        values = torch.linalg.lstsq(columns, self.y.unsqueeze(-1)).solution.squeeze(-1)
        return torch.zeros_like(support).scatter(1, where, values)

    def largest(self, x: Tensor) -> Tensor:
        """Returns the support of the k largest |x|."""
        return TopKMask(k=self.k).hard(x.abs())

    def image(self, x: Tensor) -> Tensor:
        """A x."""
        return (self.a @ x.unsqueeze(-1)).squeeze(-1)

    def _left(self, x: Tensor) -> Tensor:
        return self.image(x) - self.y


def gaussian(k: int, trials: int = 40, m: int = 64, n: int = 128, seed: int = 90) -> Problems:
    """Makes problems with independent normal entries of A."""
    return _plant(normal((trials, m, n), seed), k, seed)


def blurred_problems(
    k: int, trials: int = 40, m: int = 64, n: int = 128, width: float = 0.012, seed: int = 95
) -> Problems:
    """Makes problems whose columns are Gaussian bumps at n places of (0, 1), seen at m places: neighbours overlap."""
    places = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    seen = (torch.arange(m, dtype=torch.float64) + 0.5) / m
    bumps = torch.exp(-0.5 * ((seen.unsqueeze(-1) - places) / width) ** 2)
    return _plant(bumps.expand(trials, m, n), k, seed)


def _plant(a: Tensor, k: int, seed: int) -> Problems:
    a = a / a.norm(dim=1, keepdim=True)
    shape = (len(a), a.shape[2])
    support = TopKMask(k=k).hard(torch.rand(shape, generator=stream(seed + 1), dtype=torch.float64))
    sizes = 1 + torch.rand(shape, generator=stream(seed + 2), dtype=torch.float64)
    x = support * sizes * normal(shape, seed + 3).sign()
    return Problems(a, (a @ x.unsqueeze(-1)).squeeze(-1), support, k)


def found_exactly(problems: Problems, support: Tensor) -> Tensor:
    """Returns whether a trial's whole support was found, (trials,)."""
    return (support == problems.support).all(1)


def recovery_rate(problems: Problems, support: Tensor) -> float:
    """Returns the share of trials whose whole support was found."""
    return float(found_exactly(problems, support).double().mean())
