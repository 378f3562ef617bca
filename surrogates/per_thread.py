"""Values that hold in a block, for the thread that is in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Value = TypeVar("Value")


class PerThread(threading.local, Generic[Value]):
    """A value of each thread's own, `value`; a ContextVar, which torch.compile does not trace, would do the same."""

    def __init__(self, value: Value) -> None:
        self.value = value

    @contextmanager
    def holding(self, value: Value) -> Iterator[None]:
        """A block in which it is another one."""
        before, self.value = self.value, value
        try:
            yield
        finally:
            self.value = before
