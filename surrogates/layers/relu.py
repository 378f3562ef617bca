"""The control with an ordinary activation."""

import torch
from torch import Tensor

from surrogates.component import Component
from surrogates.core import STRATEGIES, Strategy


class Rectifier(Component):
    """relu(x): what the same model reaches without a hard op. The strategy changes nothing."""

    def __init__(self, strategy: Strategy | str) -> None:
        super().__init__()
        STRATEGIES.make(strategy)  # an unknown one is refused here too

    def forward(self, x: Tensor) -> Tensor:
        """max(x, 0)."""
        return torch.relu(x)
