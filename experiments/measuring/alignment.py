"""How one vector lies to another: its direction, and the factor that brings it nearest."""

from __future__ import annotations

import torch
from torch import Tensor


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """<a, b> / (|a| |b|) over the last dim; NaN where one of them is 0, which has no direction."""
    angle: Tensor = torch.linalg.vecdot(a, b) / (a.norm(dim=-1) * b.norm(dim=-1))
    return angle


def scale(a: Tensor, b: Tensor) -> Tensor:
    """<a, b> / <a, a> over the last dim, the factor by which a comes nearest to b; NaN where a is 0: none does."""
    factor: Tensor = torch.linalg.vecdot(a, b) / torch.linalg.vecdot(a, a)
    return factor
