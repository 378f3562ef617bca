"""Exact gradient of a stochastic binary network of any depth, by transfer matrices.

h_l ~ Bernoulli(sigmoid((h_{l-1} - 1/2) W_l)), h_1 from x W_1; P(h_l | h_{l-1}) is a 2^H x 2^H matrix T_l, the value of
a state U_l = T_{l+1} U_{l+1} from the top loss (h_L - 1/2) V against random labels. E loss = mean_x P(h_1 | x) U_1;
autograd computes its derivative by W_1. Cost O(depth 4^H).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.oracles.binary_network import log_probabilities, states
from experiments.oracles.setting import Act, Setting, gradient, normal, stream
from surrogates.ops.heaviside import Heaviside

DEPTHS = (1, 2, 3, 4, 5, 6)


@dataclass(frozen=True)
class DeepBinary:
    """x (N, d), y (N,), weights of layers 2 .. depth, each (H, H), and a readout (H, classes)."""

    x: Tensor
    y: Tensor
    weights: list[Tensor]
    readout: Tensor

    def expected(self, first: Tensor) -> Tensor:
        """Computes the exact expected loss for the first layer's weights (d H,)."""
        h = states(len(self.readout))
        value = -F.log_softmax((h - 0.5) @ self.readout, -1)[:, self.y]
        for weight in reversed(self.weights):
            value = log_probabilities((h - 0.5) @ weight, h).exp() @ value
        p = log_probabilities(self.x @ first.view(self.x.shape[1], -1), h).exp()
        return (p * value.T).sum(-1).mean()

    def loss(self, act: Act, rows: Tensor, _: torch.Generator) -> Tensor:
        """Computes the loss of one draw of all units, for each row of weights and each sample."""
        h = act(self.x @ rows.view(len(rows), self.x.shape[1], -1))
        for weight in self.weights:
            h = act((h - 0.5) @ weight)
        scores = F.log_softmax((h - 0.5) @ self.readout, -1)
        return -scores[:, torch.arange(len(self.y)), self.y]


def network(
    depth: int, units: int = 6, d: int = 8, classes: int = 3, samples: int = 24, spread: float = 1.0, seed: int = 20
) -> DeepBinary:
    """Makes a random net, hidden weights of standard deviation `spread`; depths of a seed share data and readout."""
    y = torch.randint(classes, (samples,), generator=stream(seed))
    weights = [spread * normal((units, units), seed + 10 + layer) for layer in range(2, depth + 1)]
    return DeepBinary(normal((samples, d), seed + 1), y, weights, 2 * normal((units, classes), seed + 2))


def random_setting(depth: int, seed: int, spread: float = 1.0) -> tuple[Setting, DeepBinary]:
    """Makes a random net, and the setting of its first layer's weight gradient at random weights."""
    net, first = network(depth, spread=spread, seed=seed), normal((8 * 6,), seed + 3) / 8**0.5
    truth = gradient(net.expected, first)
    name = f"deep binary, depth {depth}"
    return Setting(name, "logistic noise", Heaviside(), first, truth, net.loss, draws=1000), net


def settings() -> list[Setting]:
    """The first layer's weight gradient at depths 1 to 6."""
    return [random_setting(depth, seed=20)[0] for depth in DEPTHS]
