"""Noise as uniforms keyed by (seed, step, layer, draw): the same for every strategy, engine and resumed run."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

SMALLEST = 2.0**-25  # keeps every kernel's quantile finite: torch.rand draws multiples of 2^-24 from [0, 1)
EULER = 0.57721566490153286


def uniforms(like: Tensor, key: tuple[Any, ...], shape: tuple[int, ...] | None = None) -> Tensor:
    """Uniform numbers on (0, 1) of a shape, the dtype (at least float32) and device of `like`; no global generator.

    The shape is that of `like` unless it is given. The seed, first in the key, may be a 0-d int64 tensor: under vmap
    each example draws what its seed draws outside.
    """
    if isinstance(key[0], Tensor):
        drawn: Tensor = _Keyed.apply(like, key[0], key[1:], shape)
        return drawn
    return uniforms_of_seeds(like, key[:1], key[1:], shape)[0]


def uniforms_of_seeds(
    like: Tensor, seeds: Sequence[int], rest: tuple[Any, ...], shape: tuple[int, ...] | None = None
) -> Tensor:
    """The uniforms of each seed, (seeds, *shape), all with the same rest of the key."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    drawn = like.new_empty((len(seeds), *(like.shape if shape is None else shape)), dtype=dtype)
    generator = torch.Generator(device=like.device)
    for seed, own in zip(seeds, drawn.unbind(), strict=True):
        digest = hashlib.blake2b(struct.pack(f"<{1 + len(rest)}q", seed, *rest), digest_size=8).digest()
        own.uniform_(generator=generator.manual_seed(int.from_bytes(digest, "little") >> 1))
    return drawn.clamp_(min=SMALLEST)


def gumbel(p: Tensor) -> Tensor:
    """The quantile function of the centred Gumbel law, -log(-log p) minus Euler's constant."""
    return -torch.log(-torch.log(p)) - EULER


def gumbel_log_density(e: Tensor) -> Tensor:
    """log of the centred Gumbel law's density, -(e + c) - exp(-(e + c)), c Euler's constant."""
    return -(e + EULER) - torch.exp(-(e + EULER))


class _Keyed(torch.autograd.Function):
    """A generator cannot be batched, so the batching rule draws one example after another."""

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
