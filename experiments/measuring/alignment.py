"""Computes the angle between two vectors, and the factor that brings one nearest to the other."""

from __future__ import annotations

import torch
from torch import Tensor


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """<a, b> / (|a| |b|) over the last dim; NaN if one of them is 0."""
    angle: Tensor = torch.linalg.vecdot(a, b) / (a.norm(dim=-1) * b.norm(dim=-1))
    return angle


def scale(a: Tensor, b: Tensor) -> Tensor:
    """<a, b> / <a, a> over the last dim, the factor that brings a nearest to b; NaN if a is 0."""
    factor: Tensor = torch.linalg.vecdot(a, b) / torch.linalg.vecdot(a, a)
    return factor
