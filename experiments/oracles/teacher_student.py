"""Exact gradient of a student and a teacher with binary units and Gaussian inputs (Yin et al. 2019, arXiv 1903.05662).

y = v'H(Z w), Z (m, n) standard normal, loss (y - y*)^2 / 2, teacher (v*, w*) with |w*| = 1. With t the angle between w
and w*, 1 the vector of ones, A = I + 11', u = w / |w| and p the unit vector along (I - uu') w*:

- f(v, w) = (v'Av - 2 v'(A - 2 t / pi I) v* + v*'Av*) / 8
- df/dw = -(v . v*) / (2 pi |w|) p,  df/dv = (A v - (A - 2 t / pi I) v*) / 4
- with mu' for the derivative of H, s standard normal, r = |w|, b = E[mu'(rs) s], a its part with s > 0,
  c = E[mu'(rs) s Phi(s cot t)], d = int mu'(rs) phi(s) phi(s cot t) ds, the expected gradient is
  (|v|^2 a + ((1.v)^2 - |v|^2) b / 2 - (v.v*) c - ((1.v)(1.v*) - v.v*) b / 2) u - (v.v*) d p
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.linalg import vecdot

from experiments.oracles.setting import Act, Setting, normal
from surrogates.kernels import Normal
from surrogates.ops.heaviside import Heaviside

Slope = Callable[[Tensor], Tensor]
SLOPES: dict[str, Slope] = {  # straight-through derivatives of the unit step
    "identity": torch.ones_like,
    "relu": lambda s: (s > 0).double(),
    "clipped relu": lambda s: ((s > 0) & (s < 1)).double(),
    "hardtanh": lambda s: 0.5 * (s.abs() < 1),
    "sigmoid": lambda s: torch.sigmoid(s) * torch.sigmoid(-s),
    "fast sigmoid": lambda s: 0.5 / (1 + s.abs()) ** 2,
}
BENDS = (-1.0, 1.0)  # where one of the slopes jumps, beside 0
PANELS, NODES, EDGE = 24, 24, 12.0  # an even number of panels has an edge at 0
LENGTH = 1.5  # of a random v*


@dataclass(frozen=True)
class Problem:
    """Teachers v* (..., m) and w* (..., n), each w* of length 1; students v (..., m) and w (..., n) broadcast."""

    v_star: Tensor
    w_star: Tensor

    @property
    def coupling(self) -> Tensor:
        """I + 11'."""
        m = self.v_star.shape[-1]
        return torch.eye(m, dtype=torch.float64) + torch.ones(m, m, dtype=torch.float64)

    def angle(self, w: Tensor) -> Tensor:
        """Computes the angle between w and w*, by atan2, which is accurate near 0 and pi."""
        along = vecdot(w, self.w_star)
        return torch.atan2((w - along.unsqueeze(-1) * self.w_star).norm(dim=-1), along)

    def loss(self, v: Tensor, w: Tensor) -> Tensor:
        """Computes the population loss f."""
        a, v_star = self.coupling, self.v_star
        mixed = vecdot(v @ a, v_star) - 2 * self.angle(w) / math.pi * vecdot(v, v_star)
        loss: Tensor = (vecdot(v @ a, v) - 2 * mixed + vecdot(v_star @ a, v_star)) / 8
        return loss

    def gradient_v(self, v: Tensor, w: Tensor) -> Tensor:
        """df/dv."""
        turned = 2 * self.angle(w).unsqueeze(-1) / math.pi * self.v_star
        return ((v - self.v_star) @ self.coupling + turned) / 4

    def gradient_w(self, v: Tensor, w: Tensor) -> Tensor:
        """df/dw, for angles in (0, pi)."""
        size = vecdot(v, self.v_star) / (2 * math.pi * w.norm(dim=-1))
        gradient: Tensor = -size.unsqueeze(-1) * self.across(w)
        return gradient

    def across(self, w: Tensor) -> Tensor:
        """Returns the unit vector p; 0 if w and w* are parallel."""
        u = w / w.norm(dim=-1, keepdim=True)
        p = self.w_star - vecdot(u, self.w_star).unsqueeze(-1) * u
        size = p.norm(dim=-1, keepdim=True)
        return torch.where(size > 1e-9, p / size, 0)

    def mean(self, slope: Slope, v: Tensor, w: Tensor) -> Tensor:
        """Computes the expected gradient under any derivative, by quadrature in one dimension."""
        r, cot = w.norm(dim=-1, keepdim=True), 1 / torch.tan(self.angle(w)).unsqueeze(-1)
        s, weight = _nodes(r)
        value = weight * slope(r * s) * Normal().density(s)
        b = (value * s).sum(-1)
        a = (value * s * (s > 0)).sum(-1)
        c = (value * s * Normal().cdf(s * cot)).sum(-1)
        d = (value * Normal().density(s * cot)).sum(-1)
        own, both, size = v.sum(-1), vecdot(v, self.v_star), vecdot(v, v)
        radial = size * a + 0.5 * (own**2 - size) * b - both * c - 0.5 * (own * self.v_star.sum(-1) - both) * b
        mean: Tensor = radial.unsqueeze(-1) * w / r - (both * d).unsqueeze(-1) * self.across(w)
        return mean

    def spurious(self) -> tuple[Tensor, Tensor]:
        """Returns the point at angle pi, a spurious local minimum iff (1.v*)^2 < (m + 1) / 2 |v*|^2."""
        return 2 / (self.v_star.shape[-1] + 1) * self.v_star.sum(-1, keepdim=True) - self.v_star, -self.w_star

    def descend(self, slope: Slope, v: Tensor, w: Tensor, lr: float = 0.05, steps: int = 1000) -> tuple[Tensor, Tensor]:
        """Descends by df/dv and the expected gradient under a derivative.

        Returns loss and |w| before each step, (steps, ...) each.
        """
        losses, lengths = [], []
        for _ in range(steps):
            losses.append(self.loss(v, w))
            lengths.append(w.norm(dim=-1))
            v, w = v - lr * self.gradient_v(v, w), w - lr * self.mean(slope, v, w)
        return torch.stack(losses), torch.stack(lengths)


def problem() -> Problem:
    """Makes a problem of m = 4 units and n = 5 inputs."""
    w = normal((5,), 60)
    return Problem(torch.tensor([1.0, -0.6, 0.9, -0.3], dtype=torch.float64), w / w.norm())


def random_teachers(count: int, seed: int, m: int = 4, n: int = 5) -> Problem:
    """Draws teachers (count, m) and (count, n) that have a spurious local minimum; each v* has the length 1.5."""
    v, w = normal((20 * count, m), seed), normal((count, n), seed + 1)
    v = v[v.sum(-1) ** 2 < (m + 1) / 2 * vecdot(v, v)][:count]
    return Problem(LENGTH * v / v.norm(dim=-1, keepdim=True), w / w.norm(dim=-1, keepdim=True))


def _nodes(r: Tensor) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre nodes and weights on [-12, 12], r (..., 1); panels end where a derivative may jump, bend / r."""
    grid = torch.linspace(-EDGE, EDGE, PANELS + 1, dtype=torch.float64).expand(*r.shape[:-1], -1)
    bends = (torch.tensor(BENDS, dtype=torch.float64) / r).clamp(-EDGE, EDGE)
    edges = torch.cat([grid, bends], -1).sort(-1).values
    nodes, weights = _gauss_legendre()
    half, middle = 0.5 * edges.diff().unsqueeze(-1), 0.5 * (edges[..., 1:] + edges[..., :-1]).unsqueeze(-1)
    return (middle + half * nodes).flatten(-2), (half * weights).flatten(-2)


@cache
def _gauss_legendre() -> tuple[Tensor, Tensor]:
    """Nodes and weights on [-1, 1], by Golub and Welsch's eigenvalues."""
    k = torch.arange(1, NODES, dtype=torch.float64)
    off = k / torch.sqrt(4 * k**2 - 1)
    nodes, vectors = torch.linalg.eigh(torch.diag(off, 1) + torch.diag(off, -1))
    return nodes, 2 * vectors[0] ** 2


def settings() -> list[Setting]:
    """The gradient by the student's w; the inputs are the noise, Z w ~ N(0, |w|^2)."""
    p = problem()
    v, w = normal((4,), 61), normal((5,), 62)

    def loss(act: Act, rows: Tensor, data: torch.Generator) -> Tensor:
        z = torch.randn(len(rows), len(v), len(w), generator=data, dtype=torch.float64)
        y = act((z @ rows.unsqueeze(-1)).squeeze(-1)) @ v
        target = ((z @ p.w_star) > 0).double() @ p.v_star
        return 0.5 * (y - target) ** 2

    truth = p.gradient_w(v, w)
    scale = w.norm().item()
    op = Heaviside()
    law = "Gaussian inputs"
    return [Setting("teacher and student", law, op, w, truth, loss, "normal", scale, noisy=False, draws=20_000)]
