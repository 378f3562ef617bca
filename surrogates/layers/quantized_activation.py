"""Quantized activations with a fixed range, a learned step or a learned clip."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from surrogates.component import Component, EffectiveValue
from surrogates.core import Strategy, graft, in_float32, passing
from surrogates.hard_layer import HardLayer
from surrogates.naming.words import require_word
from surrogates.ops.quantize import Quantize
from surrogates.quantizing.quantizer import first_step, grid_op
from surrogates.quantizing.scales import SMALLEST, positive, with_lsq_gradient

Range = Literal["fixed", "learned_step", "learned_clip"]


class QuantizedActivation(Component):
    """Activations quantized to 2^bits values.

    `range`:
    - `fixed`: quantize(x) on [low, high];
    - `learned_step` (LSQ, Esser et al. 2020, arXiv 1902.08153): y = s round(clamp(x / s, -N, Q)). With low = 0 the
      codes are unsigned: N = 0, Q = 2^bits - 1. With low = -high they are signed: N = 2^(bits-1), Q = 2^(bits-1) - 1,
      for one bit -1 and 1. By the straight-through round dy/ds = round(x/s) - x/s inside, -N below and Q above; a bound
      counts as outside. The step's gradient is scaled by 1 / sqrt(n Q), n the number of activations of one sample.
      `calibrate` sets s = 2 mean|x| / sqrt(Q), for one signed bit s = mean|x|.
    - `learned_clip` (PACT, Choi et al. 2018, arXiv 1805.06085): y = quantize(clamp(x, 0, a)) on [0, a] with dy/da = 1
      for x >= a, else 0. a starts at `high`. Under `subgradient` a gets no gradient, as its only path leads through the
      quantizer.
    A learned step or clip below 1e-6 acts as 1e-6 and can grow again. In half precision a learned range is applied in
    float32.
    Raises ValueError if `range` is unknown, or Quantize refuses the bits or ends.
    Raises ValueError if a learned range does not start at 0 (a learned step: at 0 or -high).
    """

    shown = ("bits", "range")

    def __init__(
        self,
        strategy: Strategy | str,
        bits: int = 4,
        range: Range = "fixed",
        low: float = 0.0,
        high: float = 1.0,
    ) -> None:
        super().__init__()
        require_word("range", range, get_args(Range))
        signed = range == "learned_step" and low == -high
        if range != "fixed" and low != 0.0 and not signed:
            known = "low=0 or low=-high" if range == "learned_step" else "low=0"
            raise ValueError(f"range={range} needs {known}, got low={low}, high={high}; range=fixed takes any low")
        op = Quantize(bits, low, high)
        self.bits, self.range = bits, range
        if range != "fixed" and (high if range == "learned_clip" else op.step) < SMALLEST:
            raise ValueError(f"high={high} is too small for range={range}, whose scale must be at least {SMALLEST}")
        if range == "learned_step":
            self.step = nn.Parameter(torch.tensor(op.step))
            op = grid_op(bits, "symmetric" if signed else "affine", "learned")
        elif range == "learned_clip":
            self.clip = nn.Parameter(torch.tensor(float(high)))
            op = Quantize(bits, 0.0, 1.0)
        self.op = op
        self.quantize = HardLayer(op, strategy)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, ...) to the same."""
        if self.range == "learned_step":
            return in_float32(self._with_step, x)
        if self.range == "learned_clip":
            return in_float32(self._with_clip, x)
        output: Tensor = self.quantize(x)
        return output

    def _with_step(self, x: Tensor) -> Tensor:
        step = with_lsq_gradient(positive(self.step), math.prod(x.shape[1:]), self.op.high)
        scaled: Tensor = self.quantize(x / step)
        return scaled * step

    def _with_clip(self, x: Tensor) -> Tensor:
        clip = positive(self.clip)
        scale = clip.detach()
        inside: Tensor = self.quantize(_clip_above_zero(x, clip) / scale)
        return inside * scale

    def calibrate(self, *x: Tensor) -> None:
        """Sets a learned step from the mean magnitude of a batch of pre-activations."""
        if self.range == "learned_step":
            self.step.data.copy_(first_step(x[0].abs().mean(), self.op)).clamp_(min=SMALLEST)

    def effective_values(self) -> dict[str, EffectiveValue]:
        """The learned step as `scale`, or the learned clip as `clip`."""
        if self.range == "fixed":
            return {}
        name, parameter = ("scale", self.step) if self.range == "learned_step" else ("clip", self.clip)
        return {name: EffectiveValue(positive(parameter).detach(), SMALLEST)}


def _clip_above_zero(x: Tensor, clip: Tensor) -> Tensor:
    """clamp(x, 0, clip); the derivative goes to x strictly inside and to clip where x >= clip."""
    value = torch.minimum(torch.relu(x.detach()), clip.detach())
    return graft(value, passing(x, (x > 0) & (x < clip)) + passing(clip, x >= clip))
