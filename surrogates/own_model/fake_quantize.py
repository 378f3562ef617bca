"""Fake quantization in terms of round and clamp; each function has the arguments of the torch function of its name."""

from __future__ import annotations

from torch import Tensor

from surrogates.ops.round import Round
from surrogates.own_model.elementwise import Apply, clamp


def fake_quantize_per_tensor_affine(
    apply: Apply, input: Tensor, scale: Tensor | float, zero_point: Tensor | int, quant_min: int, quant_max: int
) -> Tensor:
    """(q - z) s, q = clamp(round(x / s) + z, quant_min, quant_max); T is in units of one step."""
    code = clamp(apply, apply(Round(), input / scale) + zero_point, quant_min, quant_max)
    return (code - zero_point) * scale


def fake_quantize_per_channel_affine(
    apply: Apply, input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """(q - z) s with one s and z for each entry along the axis."""
    shape = [-1 if d == axis % input.dim() else 1 for d in range(input.dim())]
    s, z = scale.reshape(shape), zero_point.reshape(shape)
    return fake_quantize_per_tensor_affine(apply, input, s, z, quant_min, quant_max)


def fake_quantize_module(
    apply: Apply,
    input: Tensor,
    enabled: Tensor,
    per_channel: bool,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> Tensor:
    """torch.ao's layer, after its observer has set scale and zero point; x itself if it is switched off."""
    if not per_channel:
        value = fake_quantize_per_tensor_affine(apply, input, scale, zero_point, quant_min, quant_max)
    else:
        value = fake_quantize_per_channel_affine(apply, input, scale, zero_point, axis, quant_min, quant_max)
    return value if enabled[0] == 1 else input
