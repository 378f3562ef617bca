"""An op's own noise: under its law the smooth reading is, or stands for, the mean of hard(x + T e)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from surrogates.core import EmptyCell, Op
from surrogates.kernels import KERNELS
from surrogates.noise import gumbel


def standard_noise(op: Op, p: Tensor, kernel: str | None) -> Tensor:
    """Maps uniforms p to noise of scale 1: the kernel's for ops that take one, centred Gumbel for ops over a dim."""
    if op.takes_kernel():
        assert kernel is not None
        return KERNELS[kernel].quantile(p)
    return -gumbel(p) if op.subtracts_noise else gumbel(p)


def add_noise(op: Op, x: Tensor, e: Tensor, T: Tensor | float) -> Tensor:
    """x + T e, e in units of the op's temperature, in the precision of e; its derivative by x is 1.

    For an op over a dim, a row that contains the winning infinity gets no noise, so it keeps its hard value.
    """
    if not op.takes_kernel():
        winning = x.detach() == (-math.inf if op.subtracts_noise else math.inf)
        e = torch.where(winning.any(op.dim, keepdim=True), 0, e)  # type: ignore[attr-defined]
    return x.to(e.dtype) + (T * op.temperature_unit) * e


def check_one_input(op: Op, name: str) -> None:
    """Raises EmptyCell if the op has several inputs, as it is not defined which of them gets the noise."""
    if op.inputs > 1:
        raise EmptyCell(f"{name} adds noise to one input and needs an op of one; {type(op).__name__} has {op.inputs}")
