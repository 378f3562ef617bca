"""The control without any activation."""

from torch import Tensor

from surrogates.component import Component
from surrogates.core import Strategy


class Identity(Component):
    """x: what a purely linear model reaches. It has no op, so the strategy changes nothing."""

    def __init__(self, strategy: Strategy) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """Returns x."""
        return x
