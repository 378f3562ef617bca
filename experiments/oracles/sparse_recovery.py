"""Recovers a planted support: y = A x with k entries of x not 0; which k?

- straight-through: S holds the k largest |X|, x is the least squares on S, X <- X - A'(A x - y); the latent X is never
  projected (SEA: Mohamed et al. 2024, PMLR 235; here from X = 0, so the step size has no effect)
- projection (iterative hard thresholding): x <- the k largest of x - s A'(A x - y), s = 1 / |A|^2
- projection with least squares on the support (hard thresholding pursuit)
- greedy (orthogonal matching pursuit): adds the entry most correlated with the residual, one at a time

Each method returns the visited support with the smallest residual. All trials run at once.
"""

from __future__ import annotations

from collections.abc import Callable
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

    def _left(self, x: Tensor) -> Tensor:
        return (self.a @ x.unsqueeze(-1)).squeeze(-1) - self.y


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


def straight_through(problems: Problems, steps: int) -> tuple[Tensor, Tensor]:
    """Returns the best support of each trial, and how many different supports it visited."""
    latent = torch.zeros_like(problems.support)

    def step(x: Tensor) -> Tensor:
        nonlocal latent
        latent = latent - problems.slope(x)
        return problems.least_squares(problems.largest(latent))

    return _search(problems, steps, step)


def projection(problems: Problems, steps: int) -> tuple[Tensor, Tensor]:
    """As `straight_through`, by iterative hard thresholding."""
    return _search(problems, steps, lambda x: _project(problems, x))


def pursuit(problems: Problems, steps: int) -> tuple[Tensor, Tensor]:
    """As `straight_through`, by hard thresholding pursuit."""
    return _search(problems, steps, lambda x: problems.least_squares((_project(problems, x) != 0).double()))


def greedy(problems: Problems, _: int = 0) -> tuple[Tensor, Tensor]:
    """As `straight_through`, by orthogonal matching pursuit: k steps."""
    support = torch.zeros_like(problems.support)
    x = support
    for _ in range(problems.k):
        left = problems.slope(x).abs().masked_fill(support > 0, -1)
        support = support.scatter(1, left.argmax(1, keepdim=True), 1.0)
        x = problems.least_squares(support)
    return support, torch.ones(len(support))


METHODS: dict[str, Callable[[Problems, int], tuple[Tensor, Tensor]]] = {
    "straight-through": straight_through,
    "projection": projection,
    "projection, least squares": pursuit,
    "greedy": greedy,
}


def recovery_rate(problems: Problems, support: Tensor) -> float:
    """Returns the share of trials whose whole support was found."""
    return float((support == problems.support).all(1).double().mean())


def _project(problems: Problems, x: Tensor) -> Tensor:
    moved = x - problems.step * problems.slope(x)
    return moved * problems.largest(moved)


def _search(problems: Problems, steps: int, step: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    x = torch.zeros_like(problems.support)
    best, least = x, torch.full((len(x),), torch.inf, dtype=x.dtype)
    seen: list[set[bytes]] = [set() for _ in range(len(x))]
    for _ in range(steps):
        x = step(x)
        support, left = (x != 0).double(), problems.residual(x)
        best = torch.where((left < least).unsqueeze(-1), support, best)
        least = torch.minimum(left, least)
        for visited, row in zip(seen, support.bool().numpy(), strict=True):
            visited.add(row.tobytes())
    return best, torch.tensor([float(len(visited)) for visited in seen])
