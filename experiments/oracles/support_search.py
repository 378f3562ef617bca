"""Methods that search for a planted support: straight-through, projection and greedy search.

With g = A'(A x - y), L(S) the least squares on a support S, and H the k largest in absolute value:

- straight-through: S = H(X), x = L(S), X <- X - g; the latent X is never projected (SEA: Mohamed et al. 2024, PMLR
  235; here from X = 0, so the step size has no effect)
- IHT, iterative hard thresholding: x <- H(x - s g), s = 1 / |A|^2 (Blumensath and Davies 2009, arXiv 0805.0510)
- normalised IHT: s = |g_S|^2 / |A g_S|^2, divided by 1.98 until S stays or the change d has s |A d|^2 <= 0.99 |d|^2
  (Blumensath and Davies 2010, with c = 0.01 and kappa = 2)
- HTP, hard thresholding pursuit: S = H(x - g), x = L(S); normalised HTP: S = H(x - s g) with s = |g_S|^2 / |A g_S|^2
  (Foucart 2011)
- subspace pursuit: T is S with the k largest |g|, S = H(L(T)), x = L(S) (Dai and Milenkovic 2009, arXiv 0803.0811)
- OMP, orthogonal matching pursuit: S gains the largest |g|, x = L(S), k times (Pati et al. 1993)
- OMP with swaps: from the support of OMP, S gains the largest |g| and loses the smallest of L(S) (after Jain et al.
  2011, arXiv 1106.2774)

Each method returns the visited support with the smallest residual. All trials run at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from experiments.oracles.sparse_recovery import Problems

Found = tuple[Tensor, Tensor]
Step = Callable[[Tensor], Tensor]  # x to the next x
StepSize = Callable[[Problems, Tensor], Tensor]
CUT, SHRINK = 0.01, 1.98  # c and kappa (1 - c) of normalised IHT
TINY = 1e-300  # a zero gradient has the step 0


def straight_through(problems: Problems, steps: int) -> Found:
    """Returns the best support of each trial (trials, n), and how many supports the trial visited (trials,)."""
    latent = torch.zeros_like(problems.support)

    def step(x: Tensor) -> Tensor:
        nonlocal latent
        latent = latent - problems.slope(x)
        return problems.least_squares(problems.largest(latent))

    return _search(problems, steps, step)


def projection(problems: Problems, steps: int, size: StepSize, refit: bool = False) -> Found:
    """As `straight_through`, by IHT, or with `refit` by HTP; `size` gives the step size s."""

    def step(x: Tensor) -> Tensor:
        moved = _project(problems, x, size(problems, x))
        return _refit(problems, moved) if refit else moved

    return _search(problems, steps, step)


def normalised_projection(problems: Problems, steps: int) -> Found:
    """As `straight_through`, by normalised IHT."""
    return _search(problems, steps, lambda x: _project_checked(problems, x))


def subspace_pursuit(problems: Problems, steps: int) -> Found:
    """As `straight_through`, by subspace pursuit."""
    return _search(problems, steps, lambda x: _exchange(problems, x, problems.k))


def greedy(problems: Problems, _: int = 0) -> Found:
    """As `straight_through`, by orthogonal matching pursuit: k steps."""
    support = torch.zeros_like(problems.support)
    x = support
    for _ in range(problems.k):
        support = _grow(problems, x, support, 1)
        x = problems.least_squares(support)
    return support, torch.ones(len(support))


def swaps(problems: Problems, steps: int) -> Found:
    """As `straight_through`, by orthogonal matching pursuit and then one swap a step."""
    start = problems.least_squares(greedy(problems)[0])
    return _search(problems, steps, lambda x: _exchange(problems, x, 1), start)


METHODS: dict[str, Callable[[Problems, int], Found]] = {
    "straight-through": straight_through,
    "IHT": partial(projection, size=lambda problems, _: problems.step),
    "normalised IHT": normalised_projection,
    "HTP": partial(projection, size=lambda problems, _: torch.ones_like(problems.step), refit=True),
    "normalised HTP": partial(projection, size=lambda problems, x: _normalised_step(problems, x), refit=True),
    "subspace pursuit": subspace_pursuit,
    "OMP": greedy,
    "OMP with swaps": swaps,
}


def _support(problems: Problems, x: Tensor) -> Tensor:
    """Returns the k largest |x|, even if some of them are 0; where x = 0, the k largest |g|."""
    return torch.where(x.any(1, keepdim=True), problems.largest(x), problems.largest(problems.slope(x)))


def _grow(problems: Problems, x: Tensor, support: Tensor, count: int) -> Tensor:
    slope = problems.slope(x).abs().masked_fill(support > 0, -1)
    return support.scatter(1, slope.topk(count).indices, 1.0)


def _exchange(problems: Problems, x: Tensor, count: int) -> Tensor:
    """The support gains `count` entries and loses as many."""
    return _refit(problems, problems.least_squares(_grow(problems, x, _support(problems, x), count)))


def _refit(problems: Problems, x: Tensor) -> Tensor:
    return problems.least_squares(problems.largest(x))


def _project(problems: Problems, x: Tensor, step: Tensor) -> Tensor:
    moved = x - step * problems.slope(x)
    return moved * problems.largest(moved)


def _normalised_step(problems: Problems, x: Tensor) -> Tensor:
    on_support = problems.slope(x) * _support(problems, x)
    return _stretch(problems, on_support).unsqueeze(1)


def _stretch(problems: Problems, x: Tensor) -> Tensor:
    """|x|^2 / |A x|^2, by trial."""
    return x.square().sum(1) / problems.image(x).square().sum(1).clamp(min=TINY)


def _project_checked(problems: Problems, x: Tensor) -> Tensor:
    support, step = _support(problems, x), _normalised_step(problems, x)
    while True:
        moved = _project(problems, x, step)
        change = moved - x
        stays = ((moved != 0).double() == support).all(1)
        accepted = stays | (step[:, 0] <= (1 - CUT) * _stretch(problems, change)) | ~change.any(1)
        if accepted.all():
            return moved
        step = torch.where(accepted.unsqueeze(1), step, step / SHRINK)


def _search(problems: Problems, steps: int, step: Step, start: Tensor | None = None) -> Found:
    x = torch.zeros_like(problems.support) if start is None else start
    best, least = (x != 0).double(), problems.residual(x)
    seen: list[set[bytes]] = [set() for _ in range(len(x))]
    for _ in range(steps):
        x = step(x)
        support, left = (x != 0).double(), problems.residual(x)
        best = torch.where((left < least).unsqueeze(-1), support, best)
        least = torch.minimum(left, least)
        for visited, row in zip(seen, support.bool().numpy(), strict=True):
            visited.add(row.tobytes())
    return best, torch.tensor([float(len(visited)) for visited in seen])
