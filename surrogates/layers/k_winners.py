"""The k largest activations of a layer."""

from torch import Tensor

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.hard_layer import HardLayer
from surrogates.ops.top_k_mask import TopKMask


class KWinners(Component):
    """x top_k_mask(x): keeps a layer's k largest activations and sets the others to 0.

    (batch, width, ...) to the same; on signals and images the k largest channels at each place (Makhzani & Frey 2013,
    arXiv 1312.5663).
    The derivative by x has two parts: one through the value, for the winners only, and one through the mask, by the
    strategy.
    `smooth` takes time O(n k log n) in float64 at each place, n the width. Its form `soft_sort` is faster: O(n k).
    Raises ValueError if k is below 1.
    Raises ValueError in `check_width` if k is above the width.
    """

    def __init__(self, strategy: Strategy | str, k: int = 8) -> None:
        super().__init__()
        self.k = k
        self.mask = HardLayer(TopKMask(k, dim=1), strategy)

    def check_width(self, width: int) -> None:
        """Raises ValueError if k is above the width."""
        if self.k > width:
            raise ValueError(f"k must be at most the layer's {width} activations, got {self.k}")

    def forward(self, x: Tensor) -> Tensor:
        """The winners; 0 elsewhere."""
        mask: Tensor = self.mask(x.view_as(x))  # a view, so that its gradient is the mask's alone
        return x * mask
