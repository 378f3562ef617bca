"""A gate that picks one of k values."""

from collections.abc import Mapping

import torch
from torch import Tensor

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.float32 import require_count
from surrogates.hard_layer import HardLayer
from surrogates.ops.argmax import ArgMax


class HardGate(Component):
    """sum_i argmax(logits)_i values_i: each unit's logits pick one of its k values.

    Two branches of (batch, k * width, ...) each, to (batch, width, ...). The logits have a layer of their own. So the
    gradient norm of that layer shows whether the gate learns: 0 if it does not.
    Raises ValueError if k is below 2.
    """

    shown = ("k",)

    def __init__(self, strategy: Strategy | str, k: int = 4) -> None:
        super().__init__()
        require_count(2, k=k)
        self.k = k
        self.gate = HardLayer(ArgMax(dim=1), strategy)

    @property
    def branches(self) -> Mapping[str, int]:
        """k values and k logits."""
        return {"values": self.k, "logits": self.k}

    def forward(self, values: Tensor, logits: Tensor) -> Tensor:
        """Each unit's chosen value."""
        gate: Tensor = self.gate(torch.unflatten(logits, 1, (self.k, -1)))
        return (torch.unflatten(values, 1, (self.k, -1)) * gate).sum(1)
