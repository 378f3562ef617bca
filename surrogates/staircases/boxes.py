"""The smooth round under compact kernels, in closed form: differences of antiderivatives of a sawtooth."""

from __future__ import annotations

import torch
from torch import Tensor


def box_ripple(boxes: int, r: Tensor, h: Tensor) -> Tensor:
    """E[round(x + h e)] - x, r the offset of x from a step; e is uniform on (-1, 1), or the mean of two such."""
    right, left = _sawtooth(r + h), _sawtooth(r - h)
    if boxes == 1:
        return (left**2 - right**2) / (4 * h)
    cubic = [d**3 / 6 - d / 24 for d in (right, _sawtooth(r), left)]
    return -(cubic[0] - 2 * cubic[1] + cubic[2]) / h**2


def box_ripple_slope(boxes: int, r: Tensor, h: Tensor) -> Tensor:
    """The derivative of `box_ripple` by x."""
    right, left = _sawtooth(r + h), _sawtooth(r - h)
    if boxes == 1:
        return (left - right) / (2 * h)
    return -(right**2 - 2 * _sawtooth(r) ** 2 + left**2) / (2 * h**2)


def _sawtooth(r: Tensor) -> Tensor:
    """x - round(x); r = 0 at a step of round."""
    y = r + 0.5
    return y - torch.round(y)
