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

    (batch, width, n) to (batch, width, n // k), or (batch, width, h, w) to (batch, width, h // k, w // k). Entries that
    fill no whole window are dropped, as in torch's max pooling.
    Under a strategy with noise, the noise's scale and the temperature are in units of `unit`, as in `HardMax`.
    Raises ValueError if k is below 2.
    Raises ValueError if unit is not a power of two, as multiplying by it would round.
    Raises ValueError in forward if no window fits into the input.
    """

    needs_space: ClassVar[bool] = True
    shown = ("k",)

    def __init__(self, strategy: Strategy | str, k: int = 2, unit: float = 0.25) -> None:
        super().__init__()
        require_power_of_two(unit=unit)
        require_count(2, k=k)
        self.k = k
        self.max = HardLayer(Max(dim=-1), strategy)
        self.unit = unit if self.max.strategy.noisy(self.max.op) else 1.0

    @property
    def downsampling(self) -> int:
        """The factor k."""
        return self.k

    def forward(self, x: Tensor) -> Tensor:
        """The largest value of each window."""
        if x.dim() < 3 or min(x.shape[2:]) < self.k:
            raise ValueError(f"the input's spatial shape must hold a window of k={self.k}, got {tuple(x.shape[2:])}")
        windows = x
        for dim in range(2, x.dim()):
            windows = windows.unfold(dim, self.k, self.k)
        rows = windows.flatten(x.dim())
        output: Tensor = self.max(rows) if self.unit == 1.0 else self.max(rows / self.unit) * self.unit
        return output
