"""What a function of tensors costs, forward and backward: milliseconds, and bytes kept between the two."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

Function = Callable[..., Tensor]


def inputs(shape: tuple[int, ...], count: int = 1) -> list[Tensor]:
    """Standard normal leaves."""
    return [torch.randn(shape, requires_grad=True) for _ in range(count)]


def milliseconds(function: Function, x: list[Tensor]) -> Callable[[], float]:
    """A measure of one forward and one backward pass; the incoming gradient is random."""
    gradient = torch.randn_like(function(*x).detach())

    def measure() -> float:
        for tensor in x:
            tensor.grad = None
        start = time.perf_counter()
        function(*x).backward(gradient)
        return (time.perf_counter() - start) * 1e3

    return measure


def saved_bytes(function: Function, x: list[Tensor]) -> float:
    """Bytes kept for backward, over those of one input; a tensor that is kept twice counts once."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        held = function(*x)  # alive while the storages are told apart by their addresses
    del held
    return sum(kept.values()) / (x[0].numel() * x[0].element_size())


def derivatives(function: Function, x: list[Tensor]) -> list[Tensor]:
    """The derivative of the sum of the outputs by each input."""
    return list(torch.autograd.grad(function(*x).sum(), x))
