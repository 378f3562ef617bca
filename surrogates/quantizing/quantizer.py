"""Quantization with one scale a tensor, channel or group, on a symmetric or an affine grid."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from surrogates.component import Calibrated, EffectiveValue
from surrogates.core import Strategy, in_float32
from surrogates.hard_layer import HardLayer
from surrogates.naming.words import require_word
from surrogates.ops.quantize import Quantize
from surrogates.quantizing.scales import SMALLEST, Per, Pieces, positive, with_lsq_gradient

Grid = Literal["symmetric", "affine"]
Scale = Literal["measured", "learned"]
TINY = 1e-30  # the smallest measured step, as a constant piece has range 0
MARGIN = 1 + 2.0**-21  # keeps the extremes inside the range after the rounded division by the step


class Quantizer(Calibrated):
    """y = z + s quantize((x - z) / s), with one s and z for each piece of x (`Pieces`).

    `grid`:
    - `symmetric`: z = 0, codes -2^(bits-1) .. 2^(bits-1) - 1, which include 0. One bit has the codes -1 and 1 instead;
      0 becomes -1 (halves round to even).
    - `affine`: codes 0 .. 2^bits - 1. Zero is a value only if it is an extreme.
    `scale`:
    - `measured` at every call, as constants without a derivative. Symmetric: max|x| gets the highest code. Affine: min
      and max get the lowest and the highest. One symmetric bit: the values -mean|x| and mean|x|, those of least squared
      error (Rastegari et al. 2016, arXiv 1603.05279). A constant or all-zero piece keeps its value, except that one
      symmetric bit makes zeros -1e-30.
    - `learned` (LSQ, Esser et al. 2020, arXiv 1902.08153; LSQ+, Bhalgat et al. 2020, arXiv 2004.09576, for z). By the
      straight-through round dy/ds = code - (x - z)/s inside the range and the bound's code outside; dy/dz = 0 inside, 1
      outside; a bound counts as outside. Both are multiplied by 1 / sqrt(n Q), n the numbers a scale, Q the highest
      code. s below 1e-6 acts as 1e-6 and can grow again. `calibrate` sets s = 2 mean|x| / sqrt(Q), for one bit s =
      mean|x|; on an affine grid it uses min and max.
    Shape: that of x, (...). Half precision is computed in float32.
    Raises ValueError if grid or scale is unknown, or Quantize refuses the bits.
    Raises EmptyCell if the strategy needs a reading that quantize lacks.
    """

    def __init__(
        self,
        strategy: Strategy | str,
        like: Tensor,
        bits: int = 4,
        grid: Grid = "symmetric",
        scale: Scale = "measured",
        pieces: Pieces = Pieces(),  # noqa: B008
    ) -> None:
        super().__init__()
        self.grid, self.scale, self.pieces = grid, scale, pieces
        self.quantize = HardLayer(grid_op(bits, grid, scale), strategy)
        count = len(pieces.cut(like.detach()))
        self.step = nn.Parameter(like.new_ones(count)) if scale == "learned" else None
        self.offset = nn.Parameter(like.new_zeros(count)) if scale == "learned" and grid == "affine" else None
        self.calibrate(like)

    @property
    def op(self) -> Quantize:
        """The op that acts on (x - z) / s."""
        op = self.quantize.op
        assert isinstance(op, Quantize)
        return op

    def forward(self, x: Tensor) -> Tensor:
        """The quantized tensor."""
        return in_float32(self._quantize_pieces, x)

    def _quantize_pieces(self, x: Tensor) -> Tensor:
        pieces = self.pieces.cut(x)
        inner, outer, offset = (
            self._learned_scale(pieces) if self.scale == "learned" else self._measure(pieces.detach())
        )
        codes: Tensor = self.quantize((pieces - offset) / inner)
        return self.pieces.join(codes * outer + offset, x)

    def _measure(self, pieces: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Steps to divide by, steps to multiply by, and offsets, (scales, 1) each."""
        low, high = pieces.amin(1, keepdim=True), pieces.amax(1, keepdim=True)
        if self.grid == "affine":
            step = (high / self.op.high - low / self.op.high).clamp(min=TINY)
            return step * MARGIN, step, low
        most = torch.maximum(high, -low)
        step = (most / self.op.high).clamp(min=TINY)
        outer = _mean_size(pieces).clamp(min=TINY) if self.op.bits == 1 else step
        return (step * MARGIN).clamp(max=torch.finfo(step.dtype).max), outer, torch.zeros_like(step)

    def _learned_scale(self, pieces: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        assert self.step is not None
        count, top = pieces.shape[1], self.op.high
        step = with_lsq_gradient(positive(self.step), count, top).unsqueeze(1)
        if self.offset is None:
            return step, step, torch.zeros_like(step).detach()
        return step, step, with_lsq_gradient(self.offset, count, top).unsqueeze(1)

    def extra_repr(self) -> str:
        """The bits, the grid and its scales."""
        return f"bits={self.op.bits}, per={self.pieces.per}, grid={self.grid}, scale={self.scale}"

    @torch.no_grad()
    def calibrate(self, *x: Tensor) -> None:
        """Sets a learned scale from a tensor that will be quantized."""
        if self.step is None:
            return
        pieces = self.pieces.cut(x[0].detach())
        if self.offset is not None:
            _, step, offset = (value.squeeze(1) for value in self._measure(pieces))
            self.offset.copy_(offset)
        else:
            step = first_step(pieces.abs().mean(1), self.op)
        self.step.copy_(step.clamp(min=SMALLEST))

    def effective_values(self) -> dict[str, EffectiveValue]:
        """The learned steps as `scale`, and the learned offsets as `offset`."""
        found = {}
        if self.step is not None:
            found["scale"] = EffectiveValue(positive(self.step).detach(), SMALLEST)
        if self.offset is not None:
            found["offset"] = EffectiveValue(self.offset.detach())
        return found


def _mean_size(pieces: Tensor) -> Tensor:
    """mean|x| of each piece, (scales, 1), without overflow of the sum."""
    sizes = pieces.abs()
    mean = sizes.mean(1, keepdim=True)
    return torch.where(mean.isinf(), (sizes / sizes.shape[1]).sum(1, keepdim=True), mean)


def grid_op(bits: int, grid: Grid, scale: Scale) -> Quantize:
    """The op on numbers in units of the step.

    Raises ValueError if grid or scale is unknown, or bits is outside 1 to 16.
    """
    require_word("grid", grid, get_args(Grid))
    require_word("scale", scale, get_args(Scale))
    Quantize(bits)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if grid == "symmetric" else (0, 2**bits - 1)
    if grid == "symmetric" and bits == 1:
        low, high = -1, 1
    return Quantize(bits, float(low), float(high), "strict" if scale == "learned" else "inclusive")


def first_step(mean: Tensor, op: Quantize) -> Tensor:
    """LSQ's first step from mean|x|: 2 mean / sqrt(Q), Q the highest code; for the codes -1 and 1 the mean itself."""
    return mean if op.low == -op.high else 2 * mean / math.sqrt(op.high)


CHANNEL_AXIS = {  # the dimension of the weight that holds the output channels
    nn.Linear: 0,
    nn.Conv1d: 0,
    nn.Conv2d: 0,
    nn.Conv3d: 0,
    nn.ConvTranspose1d: 1,
    nn.ConvTranspose2d: 1,
    nn.ConvTranspose3d: 1,
}


def quantize_weight(
    layer: nn.Module,
    strategy: Strategy | str,
    bits: int = 4,
    per: Per = "channel",
    grid: Grid = "symmetric",
    scale: Scale = "measured",
    group_size: int = 16,
) -> nn.Module:
    """Quantizes a layer's weight from now on, by `torch.nn.utils.parametrize`; returns the layer.

    `layer.weight` is then the quantized weight, `layer.parametrizations.weight.original` the trained parameter.
    Channels are the layer's outputs, in whichever dimension of the weight they are.
    Raises ValueError if the layer is not linear, convolutional or transposed convolutional.
    Raises what Quantizer and Pieces raise.
    """
    axis = next((axis for kind, axis in CHANNEL_AXIS.items() if isinstance(layer, kind)), None)
    if axis is None:
        known = ", ".join(kind.__name__ for kind in CHANNEL_AXIS)
        raise ValueError(f"quantize_weight needs a layer of type {known}; got {type(layer).__name__}")
    weight = layer.weight
    assert isinstance(weight, Tensor)
    groups = int(getattr(layer, "groups", 1)) if axis == 1 else 1
    pieces = Pieces(per, axis, groups, group_size)
    parametrize.register_parametrization(layer, "weight", Quantizer(strategy, weight, bits, grid, scale, pieces))
    return layer
