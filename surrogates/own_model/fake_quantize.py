"""Fake quantization in terms of the op quantize; each function has the arguments of the torch function of its name."""

from __future__ import annotations

from torch import Tensor

from surrogates.ops.quantize import Quantize
from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.elementwise import Apply


def fake_quantize_per_tensor_affine(
    apply: Apply, input: Tensor, scale: Tensor | float, zero_point: Tensor | int, quant_min: int, quant_max: int
) -> Tensor:
    """(q - z) s, q the code of x / s + z between quant_min and quant_max; T is in units of one step."""
    bits = (quant_max - quant_min).bit_length()
    if 2**bits != quant_max - quant_min + 1 or bits > 16:
        raise NotReplaced(f"{quant_max - quant_min + 1} values; the op quantize needs a power of two, at most 2^16")
    code = apply(Quantize(bits, float(quant_min), float(quant_max)), input / scale + zero_point)
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
