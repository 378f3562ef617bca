"""Noise as uniforms keyed by (seed, step, layer, draw): the same for every strategy, engine and resumed run."""

from __future__ import annotations

import hashlib
import struct

import torch
from torch import Tensor

SMALLEST = 2.0**-25  # keeps every kernel's quantile finite: torch.rand draws multiples of 2^-24 from [0, 1)


def uniforms(like: Tensor, key: tuple[int, ...]) -> Tensor:
    """Uniform numbers on (0, 1) of the shape, dtype (at least float32) and device of `like`; no global generator."""
    digest = hashlib.blake2b(struct.pack(f"<{len(key)}q", *key), digest_size=8).digest()
    generator = torch.Generator(device=like.device)
    generator.manual_seed(int.from_bytes(digest, "little") >> 1)
    dtype = torch.promote_types(like.dtype, torch.float32)
    drawn = torch.rand(like.shape, generator=generator, dtype=dtype, device=like.device)
    return drawn.clamp_(min=SMALLEST)
