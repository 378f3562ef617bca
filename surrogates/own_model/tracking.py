"""Finds out whether a derivative by a tensor is being recorded."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node

from surrogates.known import dual
from surrogates.torch_private import innermost, tracked_by_transform


def is_recorded(x: Tensor) -> bool:
    """Whether x is floating and autograd, forward mode or a transform of torch.func records derivatives by it."""
    if not x.is_floating_point():
        return False
    if tracked_by_transform(x):
        return True
    x = innermost(x)
    return torch.is_grad_enabled() if x.requires_grad else dual(x)


def on_graph(x: Tensor) -> Tensor:
    """The tensor whose graph has the derivatives by x: x itself, or the tensor inside the wrappers of torch.func."""
    return x if x.requires_grad else innermost(x)


def tensors(arguments: Any) -> Iterator[Tensor]:
    """The tensors among a call's arguments, also in lists and tuples."""
    if isinstance(arguments, Tensor):
        yield arguments
    elif isinstance(arguments, (tuple, list)):
        for argument in arguments:
            yield from tensors(argument)


def graphs(arguments: Any) -> list[Node]:
    """The nodes that computed the tensors among a call's arguments."""
    return [node for x in tensors(arguments) if (node := on_graph(x).grad_fn)]
