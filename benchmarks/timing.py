"""Measures a function of tensors, forward and backward: milliseconds, and the memory that grows with its input.

Times are CPU times. With one thread they equal wall-clock times on an idle machine, and other load disturbs them less.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.tracking.environment import cpu_model

Function = Callable[..., Tensor]


def machine() -> str:
    """Returns the processor and the versions."""
    return f"{cpu_model()}, Python {platform.python_version()}, torch {torch.__version__}, one thread"


def milliseconds(function: Function, x: Tensor, calls: int = 1) -> Callable[[], float]:
    """Returns a measure of one forward and one backward pass, the mean of several; the incoming gradient is random."""
    gradient = torch.randn_like(function(x).detach())

    def measure() -> float:
        start = time.process_time()
        for _ in range(calls):
            x.grad = None
            function(x).backward(gradient)
        return (time.process_time() - start) * 1e3 / calls

    return measure


def bytes_used(function: Function, x: Tensor) -> float:
    """Returns bytes kept for backward, and the largest allocation, both over the bytes of the input."""
    with torch.profiler.profile(profile_memory=True) as profile:
        function(x).sum().backward()
    largest = max(event.self_cpu_memory_usage for event in profile.events())
    return saved_bytes(function, x) + largest / (x.numel() * x.element_size())


def saved_bytes(function: Function, x: Tensor) -> float:
    """Returns bytes kept for backward over those of the input; a tensor that is kept twice counts once."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        held = function(x)  # keeps the storages alive, so that their addresses differ
    del held
    return sum(kept.values()) / (x.numel() * x.element_size())
