"""Noise as uniform numbers keyed by (seed, step, layer, draw): the same for every strategy, engine and resumed run.

The CPU draws from torch's generator, one seed a call. On other devices each number is a hash of its key and its place
(SplitMix64; Steele, Lea & Flood 2014), so that one call draws the noise of many seeds.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

SMALLEST = 2.0**-25  # keeps every kernel's quantile finite: torch.rand draws multiples of 2^-24 from [0, 1)
EULER = 0.57721566490153286


def uniforms(like: Tensor, key: tuple[Any, ...], shape: tuple[int, ...] | None = None) -> Tensor:
    """Uniform numbers on (0, 1) with the device of `like` and its dtype, at least float32.

    No global generator is used. The shape is by default that of `like`. The seed, first in the key, may be a 0-d int64
    tensor. Under vmap each example draws what its seed draws outside vmap.
    """
    if isinstance(key[0], Tensor):
        drawn: Tensor = _Keyed.apply(like, key[0], key[1:], shape)
        return drawn
    return uniforms_of_seeds(like, key[:1], key[1:], shape)[0]


def uniforms_of_seeds(
    like: Tensor, seeds: Sequence[int], rest: tuple[Any, ...], shape: tuple[int, ...] | None = None
) -> Tensor:
    """The uniform numbers of each seed, (seeds, *shape), with the same rest of the key."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    shape = tuple(like.shape) if shape is None else shape
    digests = [_digest((seed, *rest)) for seed in seeds]
    if like.device.type != "cpu":
        starts = torch.tensor([_as_signed(digest) for digest in digests]).to(like.device, non_blocking=True)
        return splitmix(starts, math.prod(shape), dtype).view(-1, *shape)
    drawn = like.new_empty((len(seeds), *shape), dtype=dtype)
    generator = torch.Generator(device="cpu")
    for digest, own in zip(digests, drawn.unbind(), strict=True):
        own.uniform_(generator=generator.manual_seed(digest >> 1))
    return drawn.clamp_(min=SMALLEST)


def _digest(key: Sequence[int]) -> int:
    packed = struct.pack(f"<{len(key)}q", *key)
    return int.from_bytes(hashlib.blake2b(packed, digest_size=8).digest(), "little")


def splitmix(starts: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """The first `count` numbers on (0, 1) of each SplitMix64 generator, (n, count) for states (n,), int64.

    float32 has 24 random bits, float64 has 53.
    """
    bits = 24 if dtype == torch.float32 else 53
    place = torch.arange(1, count + 1, device=starts.device)
    z = place.mul_(_as_signed(0x9E3779B97F4A7C15)) + starts.unsqueeze(-1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ _shift_right(z, shift)) * _as_signed(factor)
    z = z ^ _shift_right(z, 31)
    return _shift_right(z, 64 - bits).to(dtype).mul_(2.0**-bits).clamp_(min=SMALLEST)


def _shift_right(z: Tensor, bits: int) -> Tensor:
    """z >> bits of z as an unsigned number."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def _as_signed(number: int) -> int:
    """The int64 with the bits of an unsigned number of 64 bits."""
    return number - (1 << 64) if number >> 63 else number


def gumbel(p: Tensor) -> Tensor:
    """The quantile function of the centred Gumbel law, -log(-log p) minus Euler's constant."""
    return -torch.log(-torch.log(p)) - EULER


def gumbel_log_density(e: Tensor) -> Tensor:
    """log of the centred Gumbel law's density, -(e + c) - exp(-(e + c)), c Euler's constant."""
    return -(e + EULER) - torch.exp(-(e + EULER))


class _Keyed(torch.autograd.Function):
    """Draws with a batched seed: a generator cannot be batched, so the rule for vmap draws example after example."""

    @staticmethod
    def forward(like: Tensor, seed: Tensor, rest: tuple[int, ...], shape: tuple[int, ...] | None) -> Tensor:
        return uniforms(like, (int(seed), *rest), shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[None, None, None, None]:
        return None, None, None, None

    @staticmethod
    def vmap(
        info: Any, dims: Any, like: Tensor, seeds: Tensor, rest: tuple[int, ...], shape: tuple[int, ...] | None
    ) -> tuple[Tensor, int]:
        example = like if dims[0] is None else like.select(dims[0], 0)
        own = seeds.expand(info.batch_size) if dims[1] is None else seeds
        return uniforms_of_seeds(example, own.tolist(), rest, shape), 0
