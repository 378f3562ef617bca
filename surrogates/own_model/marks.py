"""The floating numbers, with a derivative, that a bool or integer tensor stands for.

torch's comparisons, indices and casts to integers have no graph. A mark records the numbers for such a tensor: the op's
own reading of 0 and 1 for a comparison, of the truncated numbers for a cast, one-hot rows for an index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from surrogates.own_model.tracking import is_recorded


class Numbers(NamedTuple):
    """0 and 1 with a derivative, or if `soft` other numbers in their place."""

    value: Tensor
    soft: bool


class Order(NamedTuple):
    """The dim along which an index orders all entries, and how to read the ranks of the entries."""

    dim: int
    ranks: Callable[[], Numbers]


@dataclass
class Mark:
    """Where a tensor comes from (call, source line, floating inputs) and how to read it as numbers.

    An `index` is read as one-hot rows: its numbers have one more dimension than the tensor, the last. The numbers of a
    `detached` tensor have no derivative.
    """

    call: str
    where: str
    sources: tuple[Tensor, ...]
    read: Callable[[], Numbers]
    index: bool = False
    order: Order | None = None
    detached: bool = False
    version: int = 0

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers, computed at the first access."""
        return self.read()

    @property
    def is_recorded(self) -> bool:
        """Whether a derivative by one of the sources is recorded."""
        return any(map(is_recorded, self.sources))


class Marks:
    """Marks by the identity of the tensor; a tensor that was changed in place since has no mark."""

    def __init__(self) -> None:
        self._marks = WeakTensorKeyDictionary()
        self.entries: Mapping[Any, Mark] = self._marks.data  # a plain dict: `any` calls no Python for it

    def put(self, tensor: Tensor, mark: Mark) -> None:
        """Marks a tensor."""
        mark.version = tensor._version
        self._marks[tensor] = mark

    def get(self, tensor: Tensor) -> Mark | None:
        """The tensor's mark; None if it has none or was changed since."""
        mark: Mark | None = self._marks.get(tensor)  # type: ignore[no-untyped-call]
        return mark if mark is not None and mark.version == tensor._version else None
