"""A threshold that is learned."""

import math

import torch
from torch import Tensor, nn

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.float32 import require_float32
from surrogates.hard_layer import HardLayer
from surrogates.ops.threshold import Threshold


class LearnedThreshold(Component):
    """x threshold(x, t) = x if x >= t, else 0, with t learned, one a layer.

    (batch, width, ...) to the same. t starts at `start`, in units of the pre-activations. It has a derivative through
    the op alone: minus the jump's height, x, times the strategy's density of inputs at the threshold; exactly 0 under
    `subgradient`.
    Raises ValueError for a start that is not finite.
    """

    def __init__(self, strategy: Strategy | str, start: float = 0.5) -> None:
        super().__init__()
        if not math.isfinite(start):
            raise ValueError(f"start must be finite, got {start}")
        require_float32(start=start)
        self.threshold = nn.Parameter(torch.tensor(start))
        self.passes = HardLayer(Threshold(), strategy)

    def forward(self, x: Tensor) -> Tensor:
        """What reaches the threshold."""
        # a separate tensor, so that its gradient is the op's only
        passes: Tensor = self.passes(x.view_as(x), self.threshold.to(x.dtype).expand_as(x))
        return x * passes
