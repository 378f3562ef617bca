"""Stochastic gradient descent."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from experiments.optimizers.optimizer import Optimizer, require_share


@dataclass(frozen=True)
class SGD(Optimizer):
    """torch.optim.SGD with momentum."""

    lr: float = 0.1
    momentum: float = 0.9
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share("momentum", self.momentum)
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov=true needs a momentum above 0")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Builds the torch optimizer of these parameters, which updates all of them in one call a step."""
        return torch.optim.SGD(
            parameters, self.lr, self.momentum, weight_decay=self.weight_decay, nesterov=self.nesterov, foreach=True
        )
