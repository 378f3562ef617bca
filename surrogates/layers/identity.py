"""The control without any activation."""

from torch import Tensor

from surrogates.component import Component
from surrogates.core import STRATEGIES, Strategy


class Identity(Component):
    """x: what a purely linear model reaches. It has no op, so the strategy changes nothing."""

    def __init__(self, strategy: Strategy | str) -> None:
        super().__init__()
        STRATEGIES.make(strategy)  # an unknown one is refused here too

    def forward(self, x: Tensor) -> Tensor:
        """Returns x."""
        return x
