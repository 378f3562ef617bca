"""Quantized weights."""

import torch
from torch import Tensor, nn

from surrogates.component import Component
from surrogates.core import STRATEGIES, Strategy
from surrogates.quantizing.quantizer import Grid, Scale, grid_op, quantize_weight
from surrogates.quantizing.scales import Per, Pieces


class QuantizedWeight(Component):
    """relu(x), after a layer whose weight is quantized to 2^bits values a scale.

    (batch, width, ...) to the same. `prepare(layer)` quantizes the weight of the layer in front, by a `Quantizer`;
    `quantize_model` quantizes the weights and inputs of a whole model. `per` is one scale an output channel
    (`channel`), a layer (`tensor`) or `group_size` neighbouring weights of a channel (`group`). `grid` and `scale` are
    the Quantizer's.
    Raises ValueError if Quantizer or Pieces refuses an argument.
    Raises EmptyCell if the strategy needs a reading that quantize lacks.
    Raises TypeError if it is called with a layer.
    """

    shown = ("bits", "per", "grid", "scale", "group_size")

    def __init__(
        self,
        strategy: Strategy | str,
        bits: int = 4,
        per: Per = "channel",
        grid: Grid = "symmetric",
        scale: Scale = "measured",
        group_size: int = 16,
    ) -> None:
        super().__init__()
        Pieces(per, size=group_size)
        self.strategy = STRATEGIES.make(strategy)
        self.strategy.check(grid_op(bits, grid, scale))
        self.bits, self.per, self.grid, self.scale, self.group_size = bits, per, grid, scale, group_size

    def prepare(self, layer: nn.Module) -> None:
        """Quantizes the layer's weight."""
        quantize_weight(layer, self.strategy, self.bits, self.per, self.grid, self.scale, self.group_size)

    def forward(self, x: Tensor) -> Tensor:
        """max(x, 0)."""
        if isinstance(x, nn.Module):
            raise TypeError(
                f"QuantizedWeight takes activations, got the layer {type(x).__name__}; "
                "QuantizedWeight(...).prepare(layer) quantizes the weight of a layer, "
                "quantize_model(model, ...) the weights and inputs of a model"
            )
        return torch.relu(x)
