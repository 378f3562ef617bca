"""Students of random teachers, and the direction of their expected gradients."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.linalg import vecdot

from experiments.measuring.alignment import cosine, scale
from experiments.oracles.setting import normal
from experiments.oracles.teacher_student import Problem, Slope


def beside_minimum(p: Problem, distance: float, seed: int) -> tuple[Tensor, Tensor]:
    """Students at the spurious minimum, moved in a random direction across w."""
    v, w = p.spurious()
    aside = normal(tuple(w.shape), seed)
    aside = aside - vecdot(aside, w).unsqueeze(-1) * w
    return v, w + distance * aside / aside.norm(dim=-1, keepdim=True)


def random_students(p: Problem, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draws students v (teachers, count, m) and w (teachers, count, n)."""
    teachers = len(p.v_star)
    v = normal((teachers, count, p.v_star.shape[-1]), seed)
    return v, normal((teachers, count, p.w_star.shape[-1]), seed + 1)


def directions(p: Problem, slope: Slope, v: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and best scale, in the last dim, of the expected gradient across w, and of all of it."""
    mean, truth, u = p.mean(slope, v, w), p.gradient_w(v, w), w / w.norm(dim=-1, keepdim=True)
    across = mean - vecdot(mean, u).unsqueeze(-1) * u
    return _alignment(across, truth), _alignment(mean, truth)


def _alignment(mean: Tensor, truth: Tensor) -> Tensor:
    return torch.stack([cosine(mean, truth), scale(mean, truth)], -1)
