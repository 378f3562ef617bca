"""A block after which a model and the random generators have the state they had before."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def keep_state(model: nn.Module) -> Iterator[None]:
    """Restores parameters, buffers, attributes of every module, modes, and the generators of torch, Python and NumPy.

    Attributes are restored by reference: a list to which a module appends keeps the new entries.
    """
    attributes = [(vars(module), _shallow(module)) for module in model.modules()]
    numbers = [(tensor, tensor.detach().clone()) for tensor in (*model.parameters(), *model.buffers())]
    devices = sorted({tensor.device.index for tensor, _ in numbers if tensor.device.type == "cuda"})
    python, numpy = random.getstate(), sys.modules.get("numpy")
    drawn: Any = numpy and numpy.random.get_state()
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(python)
        if numpy:
            numpy.random.set_state(drawn)
        for current, held in attributes:
            _restore(current, held)
        for tensor, before in numbers:
            _write(tensor, before)


def _shallow(module: nn.Module) -> dict[str, tuple[Any, Any]]:
    """The module's attributes, and copies of those that are dictionaries: parameters, buffers, modules."""
    return {name: (value, dict(value) if type(value) is dict else None) for name, value in vars(module).items()}


def _restore(current: dict[str, Any], before: dict[str, tuple[Any, Any]]) -> None:
    for name in current.keys() - before.keys():
        del current[name]
    for name, (value, contents) in before.items():
        current[name] = value
        if contents is not None:
            value.clear()
            value.update(contents)


def _write(tensor: Tensor, before: Tensor) -> None:
    """Writes back a tensor that has changed; an unchanged one may lie in memory that cannot be written."""
    if not torch.equal(tensor.detach(), before):
        tensor.data.copy_(before)
