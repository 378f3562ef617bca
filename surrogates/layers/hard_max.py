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

    (batch, k * width, ...) to (batch, width, ...). Ties are not rare when the inputs are quantized.
    Noise of scale 1, as `gumbel` has it, is as large as the pre-activations, and the maximum hands it on: training
    diverges. Under a strategy with noise, its scale and the temperature are therefore in units of `unit`.
    Raises ValueError for k below 2, or a unit that is no power of two, which would round.
    """

    def __init__(self, strategy: Strategy | str, k: int = 4, unit: float = 0.25) -> None:
        super().__init__()
        require_power_of_two(unit=unit)
        if k < 2:
            raise ValueError(f"k must be at least 2 (the maximum of one number is no choice), got {k}")
        require_count(k=k)
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
