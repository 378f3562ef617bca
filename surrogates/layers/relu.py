"""The control with an ordinary activation."""

import torch
from torch import Tensor

from surrogates.component import Component
from surrogates.core import STRATEGIES, Strategy


class Rectifier(Component):
    """relu(x): the same model without a hard op. The strategy has no effect."""

    def __init__(self, strategy: Strategy | str) -> None:
        super().__init__()
        STRATEGIES.make(strategy)  # raises ValueError if it is unknown

    def forward(self, x: Tensor) -> Tensor:
        """max(x, 0)."""
        return torch.relu(x)
