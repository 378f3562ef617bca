"""Replaces denormal numbers by 0 in training: numbers below the range of full precision, 1.2e-38 in float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from surrogates.carriers import denormals_are_zero


@contextmanager
def denormals_as_zero() -> Iterator[None]:
    """Replaces denormals by 0 on the CPU while the block runs, in this thread and in threads that it starts.

    Arithmetic with denormals is slow, and far from a jump the derivative of a smooth reading with small T is denormal.
    Without this block a training step of a smooth hard_max with T = 0.02 takes 1.6 times as long.
    """
    before = denormals_are_zero()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
