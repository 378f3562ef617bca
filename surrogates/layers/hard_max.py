"""Maxout."""

from collections.abc import Mapping

import torch
from torch import Tensor

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.float32 import require_count, require_power_of_two
from surrogates.hard_layer import HardLayer
from surrogates.ops.max import Max


class HardMax(Component):
    """max over k pre-activations (maxout, Goodfellow et al. 2013, arXiv 1302.4389).

    (batch, k * width, ...) to (batch, width, ...). Quantized inputs tie often.
    Noise of scale 1, as in `gumbel`, is as large as the pre-activations. The maximum passes it on, and training
    diverges. So under a strategy with noise, the noise's scale and the temperature are in units of `unit`.
    Raises ValueError if k is below 2.
    Raises ValueError if unit is not a power of two, as multiplying by it would round.
    """

    shown = ("k",)

    def __init__(self, strategy: Strategy | str, k: int = 4, unit: float = 0.25) -> None:
        super().__init__()
        require_power_of_two(unit=unit)
        require_count(2, k=k)
        self.k = k
        self.max = HardLayer(Max(dim=1), strategy)
        self.unit = unit if self.max.strategy.noisy(self.max.op) else 1.0

    @property
    def branches(self) -> Mapping[str, int]:
        """k values."""
        return {"values": self.k}

    def forward(self, values: Tensor) -> Tensor:
        """The largest of each unit's k values."""
        rows = torch.unflatten(values, 1, (self.k, -1))
        output: Tensor = self.max(rows) if self.unit == 1.0 else self.max(rows / self.unit) * self.unit
        return output
