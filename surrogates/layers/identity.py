"""The control without an activation."""

from torch import Tensor

from surrogates.component import Component
from surrogates.core import STRATEGIES, Strategy


class Identity(Component):
    """x: the same model, but linear. It has no op, so the strategy has no effect."""

    def __init__(self, strategy: Strategy | str) -> None:
        super().__init__()
        STRATEGIES.make(strategy)  # raises ValueError if it is unknown

    def forward(self, x: Tensor) -> Tensor:
        """x."""
        return x
