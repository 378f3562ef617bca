"""Activations looked up in a learned table."""

import torch
from torch import Tensor, nn

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.float32 import require_count, require_range
from surrogates.hard_layer import HardLayer
from surrogates.ops.lookup import Lookup


class LookupActivation(Component):
    """lookup(x, table) with `entries` learned values over [low, high], one table a layer.

    (batch, width, ...) to the same. Beyond the range the value is the first or the last entry. Entries start at the
    middles of their cells, a staircase along clamp(x, low, high).
    Raises ValueError if entries is below 2, or float32 cannot divide the range.
    """

    shown = ("entries", "low", "high")

    def __init__(self, strategy: Strategy | str, entries: int = 16, low: float = -1.0, high: float = 1.0) -> None:
        super().__init__()
        require_count(2, 2**16, entries=entries)
        require_range(low, high, entries)
        self.entries, self.low, self.high = entries, low, high
        step = (high - low) / entries
        self.table = nn.Parameter(low + step * (torch.arange(entries) + 0.5))
        self.lookup = HardLayer(Lookup(step, low), strategy)

    def forward(self, x: Tensor) -> Tensor:
        """The entry of each number's cell."""
        output: Tensor = self.lookup(x, self.table.to(x.dtype))
        return output
