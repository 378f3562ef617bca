"""Training takes numbers too small for their type's full precision, below 1.2e-38 in float32, as 0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from surrogates.carriers import denormals_are_zero


@contextmanager
def denormals_as_zero() -> Iterator[None]:
    """The block's arithmetic on the CPU, in this thread and those that it starts; after it, what held before.

    Far from a step the derivative of a sharp smooth surrogate is such a number, and arithmetic with them takes several
    times as long.
    """
    before = denormals_are_zero()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
