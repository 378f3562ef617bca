"""Binary activations."""

from torch import Tensor

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.hard_layer import HardLayer
from surrogates.ops.sign import Sign


class Binary(Component):
    """sign(x) with exactly two values, -1 and 1; zero becomes 1 (Hubara et al. 2016, arXiv 1602.02830).

    (batch, width, ...) to the same.
    """

    def __init__(self, strategy: Strategy | str) -> None:
        super().__init__()
        self.sign = HardLayer(Sign(zero=1.0), strategy)

    def forward(self, x: Tensor) -> Tensor:
        """-1 or 1 for each activation."""
        output: Tensor = self.sign(x)
        return output
