"""Tensors in nested dicts and lists, as the flat list that a graph takes, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor


def leaves(tree: Any) -> Iterator[Tensor]:
    """The tensors of nested dicts and lists, in order."""
    if isinstance(tree, Tensor):
        yield tree
    else:
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(part)


def refilled(tree: Any, tensors: Iterator[Tensor]) -> Any:
    """The same nested dicts and lists with other tensors."""
    if isinstance(tree, Tensor):
        return next(tensors)
    if isinstance(tree, dict):
        return {key: refilled(part, tensors) for key, part in tree.items()}
    return [refilled(part, tensors) for part in tree]


def described(tree: Any) -> Any:
    """The names, types, shapes and strides of tensors in nested dicts and lists."""
    if isinstance(tree, Tensor):
        return [str(tree.dtype), list(tree.shape), list(tree.stride())]
    if isinstance(tree, dict):
        return {key: described(part) for key, part in tree.items()}
    return [described(part) for part in tree]
