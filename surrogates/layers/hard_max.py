"""Maxout."""

from collections.abc import Mapping

import torch
from torch import Tensor

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.hard_layer import HardLayer
from surrogates.ops.max import Max


class HardMax(Component):
    """max over k pre-activations (maxout, Goodfellow et al. 2013, arXiv 1302.4389).

    (batch, k * width, ...) to (batch, width, ...). Ties are not rare when the inputs are quantized.
    Raises ValueError for k below 2.
    """

    def __init__(self, strategy: Strategy, k: int = 4) -> None:
        super().__init__()
        if k < 2:
            raise ValueError(f"k must be at least 2 (the maximum of one number is no choice), got {k}")
        self.k = k
        self.max = HardLayer(Max(dim=1), strategy)

    @property
    def branches(self) -> Mapping[str, int]:
        """k values."""
        return {"values": self.k}

    def forward(self, values: Tensor) -> Tensor:
        """The largest of each unit's k values."""
        output: Tensor = self.max(torch.unflatten(values, 1, (self.k, -1)))
        return output
