"""Tests a tensor's numbers: whether all are zero, and whether any is not finite."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def is_zero(tensor: Tensor) -> bool:
    """Whether a floating tensor has entries and all of them are zero."""
    numbers = _numbers(tensor)
    return numbers is not None and numbers.numel() > 0 and not bool((numbers != 0).any())


def is_finite(tensor: Tensor) -> bool:
    """Whether a tensor has no NaN and no infinity."""
    numbers = _numbers(tensor)
    return numbers is None or bool(torch.isfinite(numbers).all())


def all_zero(tensors: Iterable[Tensor | None]) -> bool:
    """Whether every tensor is zero everywhere; None counts as zero."""
    return all(tensor is None or is_zero(tensor) for tensor in tensors)


def all_finite(tensors: Iterable[Tensor | None]) -> bool:
    """Whether no tensor has a NaN or an infinity."""
    return all(tensor is None or is_finite(tensor) for tensor in tensors)


def state(gradient: Tensor | None) -> str:
    """`none`, `nan`, `inf`, `zero` or `finite`; a gradient with NaN and infinity is `nan`."""
    if gradient is None:
        return "none"
    if is_zero(gradient):
        return "zero"
    if is_finite(gradient):
        return "finite"
    numbers = _numbers(gradient)
    return "nan" if numbers is not None and bool(numbers.isnan().any()) else "inf"


def _numbers(tensor: Tensor) -> Tensor | None:
    """The stored numbers of a floating tensor; None for any other tensor."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.device.type == "meta":
        return None
    tensor = tensor.detach()
    if tensor.layout == torch.sparse_coo:
        return tensor.coalesce().values()
    return tensor if tensor.layout == torch.strided else tensor.to_dense()
