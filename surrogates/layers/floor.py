"""Activations floored to a grid."""

from torch import Tensor

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.hard_layer import HardLayer
from surrogates.ops.floor import Floor


class FloorActivation(Component):
    """floor(x) to multiples of step, held in [low, high].

    (batch, width, ...) to the same.
    Raises ValueError if the bounds are not ordered multiples of a positive step.
    """

    def __init__(self, strategy: Strategy | str, step: float = 0.5, low: float = -1.0, high: float = 1.0) -> None:
        super().__init__()
        self.floor = HardLayer(Floor(step, low, high), strategy)

    def forward(self, x: Tensor) -> Tensor:
        """The grid point at or below each number."""
        output: Tensor = self.floor(x)
        return output
