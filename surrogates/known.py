"""What can be known of tensors in advance, where finding out breaks no graph and makes no GPU wait."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual
from torch.nn import Parameter

from surrogates.torch_private import transforms_active


def known_finite(*tensors: Tensor) -> bool:
    """Whether the tensors hold finite numbers only; False, too, where finding out would cost a graph or a wait.

    What is done for infinite entries is then left out: it changes no bit of the value and costs as much as the rest.
    A sum is finite only if every entry is; where one of large numbers overflows, the answer is False as well.
    """
    return all(at_hand(tensor) and math.isfinite(tensor.detach().sum()) for tensor in tensors)


def with_nan(value: Tensor, *x: Tensor) -> Tensor:
    """The value, and NaN where one of the inputs is NaN, which comparisons and torch's sign do not keep."""
    if known_finite(*x):
        return value
    missing = x[0].isnan()
    for tensor in x[1:]:
        missing = missing | tensor.isnan()
    return value.masked_fill(missing, math.nan)


def readable(T: Tensor | float) -> float | None:
    """A temperature as a number; None where reading it would cost a graph or a wait, or it is more than one."""
    if not isinstance(T, Tensor):
        return float(T)
    return float(T.detach()) if T.dim() == 0 and at_hand(T) else None


def dual(*tensors: Tensor) -> bool:
    """Whether one of them carries a tangent of forward-mode differentiation."""
    return any(unpack_dual(tensor).tangent is not None for tensor in tensors)  # type: ignore[no-untyped-call]


def at_hand(tensor: Tensor) -> bool:
    """Whether its numbers can be read without breaking a graph or waiting for a GPU; a subclass may have none."""
    traced = torch.compiler.is_compiling() or transforms_active()
    return not traced and tensor.device.type == "cpu" and type(tensor) in (Tensor, Parameter)
