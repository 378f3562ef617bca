"""Adam (Kingma & Ba 2015, arXiv 1412.6980)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from experiments.optimizers.optimizer import Optimizer, require_share
from surrogates.float32 import LARGEST


@dataclass(frozen=True)
class Adam(Optimizer):
    """torch.optim.Adam."""

    lr: float = 0.001
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    kind: ClassVar[type[torch.optim.Adam]] = torch.optim.Adam

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share("beta1", self.beta1)
        require_share("beta2", self.beta2)
        if self.lr / (1 - self.beta1) > LARGEST:
            raise ValueError(
                f"lr / (1 - beta1) must be at most {LARGEST:.2g} (float32), got lr={self.lr} and beta1={self.beta1}"
            )
        if not 0 < self.eps < math.inf:
            raise ValueError(f"eps must be positive and finite, got {self.eps}")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Builds the torch optimizer of these parameters, which updates all of them in one call a step."""
        betas = (self.beta1, self.beta2)
        return self.kind(parameters, self.lr, betas, self.eps, self.weight_decay, foreach=True)
