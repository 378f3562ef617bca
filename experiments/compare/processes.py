"""The long parts of a comparison: spread over processes that start clean, and watched while they last."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Protocol, TypeVar

MOST = 3  # processes: each holds the libraries and one arm's curves, and all together stay below 1 GB

Task = TypeVar("Task")
Result = TypeVar("Result")


class Watch(Protocol):
    """Hands on the items of a long part while it shows how far that is."""

    def __call__(self, items: Iterable[Task], total: int, what: str) -> Iterator[Task]:
        """The items; `total` is how many there are."""
        ...


def unwatched(items: Iterable[Task], total: int, what: str) -> Iterator[Task]:
    """Nothing is shown."""
    return iter(items)


class Workers:
    """Up to `most` processes for a `with` block, the same ones for all parts; none starts before there is work for two.

    They import the program's main module again: a script that asks for more than one must stand behind
    `if __name__ == "__main__":`.
    """

    def __init__(self, watch: Watch = unwatched, most: int = MOST) -> None:
        self.watch = watch
        self._most = min(os.cpu_count() or 1, most)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def spread(
        self, function: Callable[[Task], Result], tasks: Sequence[Task], what: str, worth: bool = True
    ) -> list[Result]:
        """The function of every task, in their order; both must be such as can be pickled.

        Where it is not `worth` a process's start, or for a single task or process, it is done here.
        """
        alone = not worth or min(len(tasks), self._most) < 2
        return list(
            self.watch(map(function, tasks) if alone else self._started().map(function, tasks), len(tasks), what)
        )

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._most, mp_context=get_context("spawn"))
        return self._pool
