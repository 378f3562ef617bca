"""Exact gradient of a sign network on real data, with the loss smoothed along one weight at a time.

Moving one first-layer weight W_ij by t flips unit j for sample n at t_n = -a_nj / x_ni, a = x W + c; the loss jumps
there by J_n, known from two forward passes with unit j held at 1 and -1. So, exactly,

d/dt E[loss(t + s e)] at t = 0  =  sum_n J_n k(t_n / s) / s

for noise e of density k. The uniform kernel gives the wide finite difference (loss(s) - loss(-s)) / 2 s.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.data.dataset import DataError
from experiments.data.digits import Digits
from experiments.oracles.setting import Act, Setting, normal, stream
from surrogates.kernels import KERNELS, Kernel
from surrogates.ops.sign import Sign


@dataclass(frozen=True)
class SignNetwork:
    """x (N, d), y (N,), a bias c (H,) and a readout V (H, classes); the weights W (d, H) are the parameters."""

    x: Tensor
    y: Tensor
    bias: Tensor
    readout: Tensor

    def losses(self, h: Tensor) -> Tensor:
        """Computes the cross-entropy of each sample from hidden values (..., N, H)."""
        scores = F.log_softmax(h @ self.readout, -1)
        return -scores[..., torch.arange(len(self.y)), self.y]

    def hard(self, weights: Tensor) -> Tensor:
        """Computes the loss at weights (d, H)."""
        return self.losses(Sign(zero=1.0).hard(self.x @ weights + self.bias)).mean()

    def jumps(self, weights: Tensor) -> Tensor:
        """loss(unit j at 1) - loss(unit j at -1), by sample, (N, H)."""
        h = Sign(zero=1.0).hard(self.x @ weights + self.bias)
        found = []
        for j in range(h.shape[1]):
            up, down = h.clone(), h.clone()
            up[:, j], down[:, j] = 1.0, -1.0
            found.append(self.losses(up) - self.losses(down))
        return torch.stack(found, -1)

    def truth(self, weights: Tensor, kernel: Kernel, s: float) -> Tensor:
        """Computes the smoothed derivative by every weight, (d, H)."""
        a, jumps = self.x @ weights + self.bias, self.jumps(weights)
        rows = []
        for column in self.x.T:  # a unit rises with t if x_ni > 0, and falls if x_ni < 0
            away = column.unsqueeze(-1)
            t = -a / torch.where(away == 0, 1, away)
            density = torch.where(away == 0, 0, kernel.density(t / s) / s)
            rows.append((away.sign() * jumps * density).mean(0))
        return torch.stack(rows)

    def loss(self, act: Act, rows: Tensor, _: torch.Generator) -> Tensor:
        """Computes the loss of all data for each row of weights (draws, d H)."""
        return self.losses(act(self.x @ rows.view(len(rows), self.x.shape[1], -1) + self.bias)).mean(-1)


def network(samples: int = 300, units: int = 16, seed: int = 70) -> tuple[SignNetwork, Tensor]:
    """Makes a network on digits: random samples and first-layer weights, readout fitted to one-hot labels by ridge."""
    part = Digits().load().train
    chosen = torch.randperm(len(part.x), generator=stream(seed + 2))[:samples]
    x, y = part.x[chosen].flatten(1).double(), part.y[chosen]
    weights, bias = normal((x.shape[1], units), seed) / x.shape[1] ** 0.5, 0.1 * normal((units,), seed + 1)
    h = Sign(zero=1.0).hard(x @ weights + bias)
    ridge = h.T @ h + torch.eye(units, dtype=torch.float64)
    readout = torch.linalg.solve(ridge, h.T @ (F.one_hot(y, 10).double() - 0.1)) * 5
    return SignNetwork(x, y, bias, readout), weights


def settings() -> list[Setting]:
    """All first-layer weights under normal noise of scale 0.3 on the weight; empty if the data set is absent."""
    try:
        net, weights = network()
    except DataError:
        return []
    s = 0.3
    truth = net.truth(weights, KERNELS["normal"], s).flatten()
    law = f"normal noise, scale {s}, on one weight at a time"
    op = Sign(zero=1.0)
    flat = weights.flatten()
    return [Setting("sign network, digits", law, op, flat, truth, net.loss, "normal", s, noisy=False, draws=16)]
