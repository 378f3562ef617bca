"""A multilayer perceptron."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from torch import Tensor, nn

from experiments.models.block import Block
from experiments.models.size import ModelSize
from surrogates import Component, EmptyCell


class MLP(nn.Module):
    """`depth` blocks of `width` activations and a linear readout: (batch, *input_shape) to (batch, classes) logits.

    `component()` makes the component of one block.
    Raises ValueError if width or depth is below 1.
    Raises EmptyCell if the component pools over spatial dimensions.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        component: Callable[[], Component],
        width: int = 128,
        depth: int = 2,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        require_at_least_one(width=width, depth=depth)
        inputs = prod(input_shape)
        blocks = []
        for _ in range(depth):
            part = component()
            if part.needs_space:
                raise EmptyCell(f"{type(part).__name__} pools over space, which an mlp does not have; use model=cnn")
            blocks.append(
                Block(part, width, inputs, partial(nn.Linear, inputs), nn.BatchNorm1d if batch_norm else None)
            )
            inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.readout = nn.Linear(inputs, classes)

    @staticmethod
    def size(
        input_shape: tuple[int, ...],
        classes: int,
        fan_in: int,
        width: int = 128,
        depth: int = 2,
        batch_norm: bool = False,
    ) -> ModelSize:
        """Returns the size of a model whose components take `fan_in` pre-activations; batch norm is not counted."""
        require_at_least_one(width=width, depth=depth)
        first, later = prod(input_shape) + 1, width + 1
        parameters = fan_in * width * (first + (depth - 1) * later) + classes * later
        return ModelSize(parameters, depth * width, depth)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the logits."""
        logits: Tensor = self.readout(self.blocks(x.flatten(1)))
        return logits


def require_at_least_one(**sizes: int) -> None:
    """Raises ValueError, with the first wrong size, if one is below 1 or above what torch can count."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"model.{name} must be at least 1, got {size}")
        if size >= 2**31:
            raise ValueError(f"model.{name} must be below 2^31, got {size}")
