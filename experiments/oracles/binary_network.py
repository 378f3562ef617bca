"""Exact gradient of a stochastic binary network with one hidden layer, by enumerating all 2^H hidden states.

h_j ~ Bernoulli(sigmoid((x W)_j)) independently; loss = mean over samples of cross-entropy(h V, y). For each sample
E loss = sum_h prod_j p_j^h_j (1 - p_j)^(1 - h_j) cross-entropy(h V, y); autograd computes its derivative by W.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.oracles.setting import Act, Setting, gradient, normal, stream
from surrogates.ops.heaviside import Heaviside


def states(units: int) -> Tensor:
    """Returns all 2^units binary vectors, (2^units, units)."""
    bits = torch.arange(units)
    return ((torch.arange(2**units).unsqueeze(-1) >> bits) & 1).double()


def log_probabilities(logits: Tensor, h: Tensor) -> Tensor:
    """log P(h) of independent units: logits (..., H) and states (S, H) to (..., S)."""
    return F.logsigmoid(logits) @ h.T + F.logsigmoid(-logits) @ (1 - h).T


@dataclass(frozen=True)
class BinaryNetwork:
    """Samples x (N, d) and labels y (N,), a readout V (H, classes); the weights W (d, H) are the parameters."""

    x: Tensor
    y: Tensor
    readout: Tensor

    def expected(self, weights: Tensor) -> Tensor:
        """Computes the exact expected loss."""
        h = states(len(self.readout))
        p = log_probabilities(self.x @ weights.view(-1, len(self.readout)), h).exp()
        losses = -F.log_softmax(h @ self.readout, -1)[:, self.y]
        return (p * losses.T).sum(-1).mean()

    def loss(self, act: Act, rows: Tensor, _: torch.Generator) -> Tensor:
        """Computes the loss of one draw of the hidden units, for each row of weights and each sample."""
        logits = self.x @ rows.view(len(rows), -1, len(self.readout))
        scores = F.log_softmax(act(logits) @ self.readout, -1)
        return -scores[:, torch.arange(len(self.y)), self.y]


def network(d: int = 16, units: int = 8, classes: int = 4, samples: int = 64, seed: int = 10) -> BinaryNetwork:
    """Makes a network with random samples, labels and readout."""
    y = torch.randint(classes, (samples,), generator=stream(seed))
    return BinaryNetwork(normal((samples, d), seed + 1), y, normal((units, classes), seed + 2))


def settings() -> list[Setting]:
    """The weight gradient of 16 inputs, 8 units, 4 classes, 64 samples."""
    net = network()
    weights = normal((16 * 8,), 13) / 4
    truth = gradient(net.expected, weights)
    return [Setting("binary network", "logistic noise", Heaviside(), weights, truth, net.loss)]
