"""The nearest of the codes in a codebook."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surrogates.core import Op, detached, flat, in_float32
from surrogates.float32 import no_autocast

BEYOND = 1e17  # for the choice coordinates are held to this, so that sums of products stay in float32


@dataclass(frozen=True)
class VectorQuantize(Op):
    """vector_quantize(z, codes) = codes[k], k the first of the codes with the smallest |z - codes[k]|.

    z (..., d) and codes (n, d) to (..., d). A vector with a NaN is NaN; a codebook with a NaN makes all NaN. For the
    choice, coordinates beyond 1e17, infinite ones too, count as 1e17.
    Jumps where two codes are equally near. The derivative by z is 0 there by definition, and 0 everywhere else. The
    derivative by the codes is exact almost everywhere, under every strategy with a hard value: the chosen code receives
    the incoming gradient, the others 0. So the codebook learns from the task's loss. A codebook or commitment loss (van
    den Oord et al. 2017, arXiv 1711.00937) is a term of the user's loss, not of the op.
    proxy: z (straight-through), plus the chosen code.
    Form `rotation`: the chosen code e as (|e| / |z|) R z with the ratio and R held constant, R the rotation from z's
    direction to e's in their plane (Fifty et al. 2024, arXiv 2410.06424). R does not exist where z is 0 or infinite or
    e points exactly the other way; there the form is straight-through.
    smooth: sum_k p_k codes[k] with p = softmax(-|z - codes|^2 / (2 T^2)), the mean code given z if z is a random code
    plus T times normal noise. All codes learn. Where z or a code is beyond 1e17 the value is the hard one.
    Raises ValueError if the shapes do not fit.
    Raises IndexError if the codebook is empty.
    """

    elementwise: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False

    def hard(self, z: Tensor, codes: Tensor) -> Tensor:
        missing = z.isnan().any(-1, keepdim=True) | codes.isnan().any()
        return _nearest_code(z, codes).to(z.dtype).masked_fill(missing, math.nan)

    def subgradient(self, z: Tensor, codes: Tensor, rule: str) -> Tensor:
        return _nearest_code(z, codes) + flat(z)

    def proxy(self, z: Tensor, codes: Tensor, T: Tensor | float) -> Tensor:
        return _nearest_code(z, codes) + z

    def proxy_rotation(self, z: Tensor, codes: Tensor, T: Tensor | float) -> Tensor:
        """The rotation trick."""
        chosen = _nearest_code(z, codes)
        return chosen + in_float32(rotate, z, *detached((z, chosen)))

    def smooth(self, z: Tensor, codes: Tensor, kernel: None, T: Tensor | float) -> Tensor:
        far = (z.abs() > BEYOND).any(-1, keepdim=True) | (codes.abs() > BEYOND).any()
        inside, around = torch.where(far, 0, z), codes.clamp(-BEYOND, BEYOND)
        gap = _excess(inside, around)
        with no_autocast(z):
            mixed = torch.softmax(-(gap / T) / T, -1) @ around
        return torch.where(far, self.hard(z, codes), mixed)


def rotate(z: Tensor, at: Tensor, code: Tensor) -> Tensor:
    """(|code| / |at|) R z, R the rotation from the direction of `at` to that of `code`; z if R does not exist.

    R = I - 2 r r' + 2 c a', a and c the directions, r the direction of a + c.
    """
    (a, size), (c, length) = _polar(at), _polar(code)
    ratio = length / size
    between = a + c
    none = ~ratio.isfinite() | (between == 0).all(-1, keepdim=True)
    r = torch.nn.functional.normalize(between, dim=-1)
    turned = z - 2 * r * (r * z).sum(-1, keepdim=True) + 2 * c * (a * z).sum(-1, keepdim=True)
    return torch.where(none, z, torch.where(none, 0, ratio) * turned)


def _polar(x: Tensor) -> tuple[Tensor, Tensor]:
    """Direction and length, without overflow. Direction 0 for a vector of 0, and for an infinite one, of length NaN."""
    largest = torch.linalg.vector_norm(x, math.inf, dim=-1, keepdim=True) if x.shape[-1] else x.sum(-1, keepdim=True)
    scaled = torch.where((largest > 0) & largest.isfinite(), x / largest, 0)
    length = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    return scaled / length.clamp(min=1), length * largest


def _excess(z: Tensor, codes: Tensor) -> Tensor:
    """(|z - codes|^2 - |z - nearest code|^2) / 2, (..., n).

    Products around the codebook's median avoid differences of large squares: for codes far from 0, and for codes near
    each other if a few are far away.
    """
    if z.shape[-1:] != codes.shape[1:] or codes.dim() != 2:
        raise ValueError(f"z (..., d) needs codes (n, d), got {tuple(z.shape)} and {tuple(codes.shape)}")
    if not len(codes):
        raise IndexError(f"the codebook must have at least one code, its shape is {tuple(codes.shape)}")
    held, around = (x.clamp(-BEYOND, BEYOND) for x in (z, codes))
    middle = around.detach().sort(0).values[(len(codes) - 1) // 2]
    held, around = held - middle, around - middle
    with no_autocast(z):  # half precision would choose other codes
        score = 0.5 * around.square().sum(-1) - held @ around.t()
    return score - score.detach().amin(-1, keepdim=True)


def nearest(z: Tensor, codes: Tensor) -> Tensor:
    """The index of each vector's nearest code, the first if several are equally near: (..., d), (n, d) to (...)."""
    wide = torch.promote_types(z.dtype, torch.float32)
    return _excess(z.detach().to(wide).nan_to_num(nan=0.0), codes.detach().to(wide)).argmin(-1)


def _nearest_code(z: Tensor, codes: Tensor) -> Tensor:
    return codes[nearest(z, codes)]
