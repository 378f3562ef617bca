"""Hard max pooling."""

from typing import ClassVar

from torch import Tensor

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.float32 import require_count, require_power_of_two
from surrogates.hard_layer import HardLayer
from surrogates.ops.max import Max


class HardMaxPool(Component):
    """max over windows of k (signals) or k x k (images), stride k: the only nonlinearity of its block.

    (batch, width, n) to (batch, width, n // k), or (batch, width, h, w) to (batch, width, h // k, w // k); what
    does not fill a window is left out, as in torch's max pooling.
    Noise of scale 1 makes training diverge, as in `HardMax`: under a strategy with noise, its scale and the temperature
    are in units of `unit`.
    Raises ValueError for k below 2, or a unit that is no power of two, which would round, and in forward for an input
    that no window fits into.
    """

    needs_space: ClassVar[bool] = True

    def __init__(self, strategy: Strategy | str, k: int = 2, unit: float = 0.25) -> None:
        super().__init__()
        require_power_of_two(unit=unit)
        if k < 2:
            raise ValueError(f"k must be at least 2 (a window of one is no choice), got {k}")
        require_count(k=k)
        self.k = k
        self.max = HardLayer(Max(dim=-1), strategy)
        self.unit = unit if self.max.strategy.noisy(self.max.op) else 1.0

    @property
    def downsampling(self) -> int:
        """k."""
        return self.k

    def forward(self, x: Tensor) -> Tensor:
        """The largest value of each window."""
        if x.dim() < 3 or min(x.shape[2:]) < self.k:
            raise ValueError(f"no window of k={self.k} fits into the spatial shape {tuple(x.shape[2:])}")
        windows = x
        for dim in range(2, x.dim()):
            windows = windows.unfold(dim, self.k, self.k)
        rows = windows.flatten(x.dim())
        output: Tensor = self.max(rows) if self.unit == 1.0 else self.max(rows / self.unit) * self.unit
        return output
