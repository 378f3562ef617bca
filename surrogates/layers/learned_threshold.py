"""Activations with a learned threshold."""

import math

import torch
from torch import Tensor, nn

from surrogates.component import Component, EffectiveValue
from surrogates.core import Strategy
from surrogates.float32 import require_float32
from surrogates.hard_layer import HardLayer
from surrogates.ops.threshold import Threshold


class LearnedThreshold(Component):
    """x threshold(x, t) = x if x >= t, else 0, with one learned t a layer.

    (batch, width, ...) to the same. t starts at `start`, in units of the pre-activations. Its derivative comes from the
    op alone: minus the height of the jump, x, times the strategy's density of inputs at the threshold. Under
    `subgradient` it is exactly 0.
    Raises ValueError if start is not finite.
    """

    def __init__(self, strategy: Strategy | str, start: float = 0.5) -> None:
        super().__init__()
        if not math.isfinite(start):
            raise ValueError(f"start must be finite, got {start}")
        require_float32(start=start)
        self.threshold = nn.Parameter(torch.tensor(start))
        self.passes = HardLayer(Threshold(), strategy)

    def forward(self, x: Tensor) -> Tensor:
        """x where it reaches the threshold; 0 elsewhere."""
        # a view, so that its gradient is the op's alone
        passes: Tensor = self.passes(x.view_as(x), self.threshold.to(x.dtype).expand_as(x))
        return x * passes

    def effective_values(self) -> dict[str, EffectiveValue]:
        """The threshold."""
        return {"threshold": EffectiveValue(self.threshold.detach())}
