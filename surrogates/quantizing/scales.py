"""Scales of quantizers: positive ones, LSQ's gradient scale, and the pieces of a tensor that share one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from surrogates.core import graft
from surrogates.float32 import require_count
from surrogates.naming.member import Member

SMALLEST = 1e-6  # a smaller learned scale acts as this one
Per = Literal["tensor", "channel", "group"]


def positive(parameter: Tensor) -> Tensor:
    """max(parameter, 1e-6) with the parameter's derivative, so that a negative parameter can become positive again."""
    return graft(parameter.detach().clamp(min=SMALLEST), parameter)


def with_lsq_gradient(parameter: Tensor, count: int, top: float) -> Tensor:
    """The parameter with its derivative times 1 / sqrt(count top), count the numbers a scale, top the highest code.

    LSQ (Esser et al. 2020, arXiv 1902.08153).
    """
    return graft(parameter, parameter / math.sqrt(max(1, count) * top))


@dataclass(frozen=True)
class Pieces(Member):
    """Which numbers of a tensor share a scale: all, those of a channel, or `size` neighbours in a channel.

    `axis` is the dimension of the channels; negative ones count from the end. A transposed convolution with `groups`
    has its output channels in dimension 1, group after group along dimension 0.
    Raises ValueError if `per` is unknown.
    Raises ValueError in `cut` if `size` does not divide a channel.
    """

    per: Per = "channel"
    axis: int = 0
    groups: int = 1
    size: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count(group_size=self.size)

    def cut(self, x: Tensor) -> Tensor:
        """(...) to (scales, numbers that share a scale)."""
        if self.per == "tensor":
            return x.reshape(1, -1)
        channels = self._channels_first(x).flatten(1)
        if self.per == "channel":
            return channels
        if channels.shape[1] % self.size:
            raise ValueError(
                f"group_size must divide the {channels.shape[1]} weights of a channel of {tuple(x.shape)}, "
                f"got {self.size}"
            )
        return channels.reshape(-1, self.size)

    def join(self, pieces: Tensor, like: Tensor) -> Tensor:
        """Joins pieces to a tensor of the shape of `like`; the inverse of `cut`."""
        if self.per == "tensor":
            return pieces.reshape(like.shape)
        split = torch.unflatten(pieces.reshape(self._channels_first(like).shape), 0, (self.groups, -1))
        return split.movedim(1, self._axis(like) + 1).flatten(0, 1)

    def _channels_first(self, x: Tensor) -> Tensor:
        return torch.unflatten(x, 0, (self.groups, -1)).movedim(self._axis(x) + 1, 1).flatten(0, 1)

    def _axis(self, x: Tensor) -> int:
        if not -x.dim() <= self.axis < x.dim():
            raise ValueError(f"axis must be a dimension of a tensor of shape {tuple(x.shape)}, got {self.axis}")
        return self.axis % x.dim()
