"""A small convolutional net for signals and images."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from torch import Tensor, nn

from experiments.models.block import Block
from experiments.models.mlp import require_at_least_one
from experiments.models.size import ModelSize
from surrogates import Component

CONVS = {1: nn.Conv1d, 2: nn.Conv2d}
NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d}
POOLS = {1: nn.AvgPool1d, 2: nn.AvgPool2d}


class CNN(nn.Module):
    """`depth` conv blocks of `width` channels, each halving space, and a linear readout.

    (batch, channels, n) or (batch, channels, h, w) to (batch, classes) logits. A component that halves space itself
    (hard max pooling) replaces the block's average pooling.
    Raises ValueError if a size is below 1, or if the input has no space, or too little for `depth` halvings.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        component: Callable[[], Component],
        width: int = 32,
        depth: int = 2,
        kernel_size: int = 3,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        require_at_least_one(width=width, depth=depth, kernel_size=kernel_size)
        channels, *space = input_shape
        if len(space) not in CONVS:
            raise ValueError(f"model=cnn needs inputs of shape (channels, n) or (channels, h, w), got {input_shape}")
        blocks: list[nn.Module] = []
        for _ in range(depth):
            part = component()
            conv = partial(CONVS[len(space)], channels, kernel_size=kernel_size, padding="same")
            norm = NORMS[len(space)] if batch_norm else None
            blocks.append(Block(part, width, channels * kernel_size ** len(space), conv, norm))
            if part.downsampling == 1:
                blocks.append(POOLS[len(space)](2))
            space = [size // (2 if part.downsampling == 1 else part.downsampling) for size in space]
            if min(space) < 1:
                raise ValueError(
                    f"inputs of shape {input_shape} are too small for model.depth={depth} with this pooling"
                )
            channels = width
        self.blocks = nn.Sequential(*blocks)
        self.readout = nn.Linear(channels * prod(space), classes)

    @staticmethod
    def size(
        input_shape: tuple[int, ...],
        classes: int,
        fan_in: int,
        width: int = 32,
        depth: int = 2,
        kernel_size: int = 3,
        batch_norm: bool = False,
    ) -> ModelSize:
        """Returns the size of a model whose components take `fan_in` pre-activations and halve space, or a lower bound.

        Batch norm is not counted, nor are blocks without space.
        """
        require_at_least_one(width=width, depth=depth, kernel_size=kernel_size)
        channels, *space = input_shape
        parameters = activations = 0
        depth = min(depth, max(space, default=1).bit_length())
        for _ in range(depth):
            parameters += fan_in * width * (channels * kernel_size ** len(space) + 1)
            channels, space = width, [size // 2 for size in space]
            activations += width * prod(space)
        return ModelSize(parameters + classes, activations, depth)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the logits."""
        logits: Tensor = self.readout(self.blocks(x).flatten(1))
        return logits
