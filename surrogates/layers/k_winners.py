"""The k largest activations of a layer."""

from torch import Tensor

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.hard_layer import HardLayer
from surrogates.ops.top_k_mask import TopKMask


class KWinners(Component):
    """x top_k_mask(x): the k largest of a layer's activations pass, the others are 0 (Makhzani & Frey 2013, arXiv
    1312.5663).

    (batch, width, ...) to the same; on signals and images the k largest channels at each place. One op over the layer.
    The derivative by x has two parts: through the value, which only winners have, and through the mask, by strategy.
    `smooth` takes time O(n k log n) in float64 at each place, n the width; its form `soft_sort` O(n k), a fraction of
    that.
    Raises ValueError for k below 1, and from `check_width` for one above the width.
    """

    def __init__(self, strategy: Strategy | str, k: int = 8) -> None:
        super().__init__()
        self.k = k
        self.mask = HardLayer(TopKMask(k, dim=1), strategy)

    def check_width(self, width: int) -> None:
        """At least k activations."""
        if self.k > width:
            raise ValueError(f"k must be at most the layer's {width} activations, got {self.k}")

    def forward(self, x: Tensor) -> Tensor:
        """The winners, and 0 elsewhere."""
        mask: Tensor = self.mask(x.view_as(x))  # a separate tensor, so that its gradient is the mask's only
        return x * mask
