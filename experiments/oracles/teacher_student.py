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
BENDS = (-1.0, 0.0, 1.0)  # where one of the slopes jumps
PANELS, NODES, EDGE = 24, 24, 12.0


@dataclass(frozen=True)
class Problem:
    """A teacher v* (m,), w* (n,) of length 1."""

    v_star: Tensor
    w_star: Tensor

    @property
    def coupling(self) -> Tensor:
        """I + 11'."""
        m = len(self.v_star)
        return torch.eye(m, dtype=torch.float64) + torch.ones(m, m, dtype=torch.float64)

    def angle(self, w: Tensor) -> Tensor:
        """Computes the angle between w and w*, by atan2, which is accurate near 0 and pi."""
        along = w @ self.w_star
        return torch.atan2((w - along * self.w_star).norm(), along)

    def loss(self, v: Tensor, w: Tensor) -> Tensor:
        """Computes the population loss f."""
        a, v_star = self.coupling, self.v_star
        mixed = v @ a @ v_star - 2 * self.angle(w) / math.pi * (v @ v_star)
        return (v @ a @ v - 2 * mixed + v_star @ a @ v_star) / 8

    def gradient_v(self, v: Tensor, w: Tensor) -> Tensor:
        """df/dv."""
        a = self.coupling
        return (a @ v - a @ self.v_star + 2 * self.angle(w) / math.pi * self.v_star) / 4

    def gradient_w(self, v: Tensor, w: Tensor) -> Tensor:
        """df/dw, for angles in (0, pi)."""
        gradient: Tensor = -(v @ self.v_star) / (2 * math.pi * w.norm()) * self.across(w)
        return gradient

    def across(self, w: Tensor) -> Tensor:
        """Returns the unit vector p; 0 if w and w* are parallel."""
        u = w / w.norm()
        p = self.w_star - (u @ self.w_star) * u
        return p / p.norm() if p.norm() > 1e-9 else torch.zeros_like(p)

    def mean(self, slope: Slope, v: Tensor, w: Tensor) -> Tensor:
        """Computes the expected gradient under any derivative, by quadrature in one dimension."""
        r, angle = w.norm(), self.angle(w)
        s, weight = _nodes(r.item())
        density, cot = Normal().density(s), 1 / torch.tan(angle)
        value = weight * slope(r * s)
        b = (value * s * density).sum()
        a = (value * s * density)[s > 0].sum()
        c = (value * s * density * Normal().cdf(s * cot)).sum()
        d = (value * density * Normal().density(s * cot)).sum()
        own, both = v.sum(), v @ self.v_star
        radial = v @ v * a + 0.5 * (own**2 - v @ v) * b - both * c - 0.5 * (own * self.v_star.sum() - both) * b
        mean: Tensor = radial * w / r - both * d * self.across(w)
        return mean

    def spurious(self) -> tuple[Tensor, Tensor]:
        """Returns the point at angle pi, a spurious local minimum iff (1.v*)^2 < (m + 1) / 2 |v*|^2."""
        m = len(self.v_star)
        ones = torch.ones(m, m, dtype=torch.float64)
        v = torch.linalg.solve(self.coupling, (ones - torch.eye(m, dtype=torch.float64)) @ self.v_star)
        return v, -self.w_star

    def descend(self, slope: Slope, v: Tensor, w: Tensor, lr: float = 0.05, steps: int = 1000) -> tuple[Tensor, Tensor]:
        """Descends by df/dv and the expected gradient under a derivative; returns loss and |w| before each step."""
        losses, lengths = [], []
        for _ in range(steps):
            losses.append(self.loss(v, w))
            lengths.append(w.norm())
            v, w = v - lr * self.gradient_v(v, w), w - lr * self.mean(slope, v, w)
        return torch.stack(losses), torch.stack(lengths)


def problem() -> Problem:
    """Makes a problem of m = 4 units and n = 5 inputs."""
    w = normal((5,), 60)
    return Problem(torch.tensor([1.0, -0.6, 0.9, -0.3], dtype=torch.float64), w / w.norm())


def _nodes(r: float) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre nodes and weights on [-12, 12] in panels that end where a derivative may jump, s = bend / r."""
    ends = {-EDGE, EDGE, *(bend / r for bend in BENDS if abs(bend / r) < EDGE)}
    ends |= set(torch.linspace(-EDGE, EDGE, PANELS + 1, dtype=torch.float64).tolist())
    edges = torch.tensor(sorted(ends), dtype=torch.float64)
    nodes, weights = _gauss_legendre()
    half, middle = 0.5 * edges.diff().unsqueeze(-1), 0.5 * (edges[1:] + edges[:-1]).unsqueeze(-1)
    return (middle + half * nodes).flatten(), (half * weights).flatten()


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
