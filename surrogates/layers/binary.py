"""Binary activations and weights."""

from typing import Literal, get_args

from torch import Tensor, nn

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.hard_layer import HardLayer
from surrogates.naming.words import require_word
from surrogates.ops.sign import Sign
from surrogates.quantizing.quantizer import quantize_weight

Weights = Literal["real", "binary"]


class Binary(Component):
    """sign(x) with exactly two values, -1 and 1; zero becomes 1 (Hubara et al. 2016, arXiv 1602.02830).

    (batch, width, ...) to the same. With weights=binary `prepare(layer)` makes the weight of the layer in front
    sign(w) mean|w|, with one mean for each output channel and sign(0) = -1 (Rastegari et al. 2016, arXiv 1603.05279).
    The weight gets a `Quantizer` of one bit under the same strategy, whose op acts on w / max|w|.
    Raises ValueError if `weights` is unknown.
    """

    shown = ("weights",)

    def __init__(self, strategy: Strategy | str, weights: Weights = "real") -> None:
        super().__init__()
        require_word("weights", weights, get_args(Weights))
        self.weights = weights
        self.sign = HardLayer(Sign(zero=1.0), strategy)

    def prepare(self, layer: nn.Module) -> None:
        """Makes the layer's weight binary if weights=binary."""
        if self.weights == "binary":
            quantize_weight(layer, self.sign.strategy, bits=1)

    def forward(self, x: Tensor) -> Tensor:
        """-1 or 1 for each activation."""
        output: Tensor = self.sign(x)
        return output
