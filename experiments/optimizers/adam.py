"""Adam (Kingma & Ba 2015, arXiv 1412.6980)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from experiments.optimizers.optimizer import Optimizer, require_share


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
        if not self.eps > 0:
            raise ValueError(f"eps must be positive, got {self.eps}")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The torch optimizer over these parameters, all of them in one call a step."""
        betas = (self.beta1, self.beta2)
        return self.kind(parameters, self.lr, betas, self.eps, self.weight_decay, foreach=True)
