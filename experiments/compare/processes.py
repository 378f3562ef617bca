"""Worker processes for the long parts of a comparison, with progress on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

MOST = 3  # processes: each holds the libraries and one variant's curves, and all together stay below 1 GB
EVERY = 10.0  # seconds between two lines of progress

Task = TypeVar("Task")
Returned = TypeVar("Returned")


class Workers:
    """Up to `most` worker processes for a `with` block; none starts before there are two tasks.

    Each process imports the program's main module again. A script that asks for more than one process must keep its
    main part behind `if __name__ == "__main__":`.
    `visible`: show progress, as a bar on a terminal and as a line every ten seconds elsewhere.
    """

    def __init__(self, most: int = MOST, visible: bool = False) -> None:
        self._most, self._visible = min(os.cpu_count() or 1, most), visible
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def watch(self, items: Iterable[Task], total: int, what: str) -> Iterator[Task]:
        """Yields the items, and shows progress if it is visible."""
        return progress(items, total, what) if self._visible else iter(items)

    def spread(
        self, function: Callable[[Task], Returned], tasks: Sequence[Task], what: str, worth: bool = True
    ) -> list[Returned]:
        """Returns the function of every task, in the order of the tasks; both must be picklable.

        This process computes all of it if starting others is not `worth` it, or for a single task or process.
        """
        alone = not worth or min(len(tasks), self._most) < 2
        mapped = map(function, tasks) if alone else self._processes().map(function, tasks)
        return list(self.watch(mapped, len(tasks), what))

    def _processes(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._most, mp_context=get_context("spawn"))
        return self._pool


def progress(items: Iterable[Task], total: int, what: str) -> Iterator[Task]:
    """Yields the items and shows progress: a bar that disappears at the end, or off a terminal a line every 10 s."""
    if sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track

        return iter(track(items, what, total, console=Console(stderr=True), transient=True))
    return _with_lines(items, total, what)


def _with_lines(items: Iterable[Task], total: int, what: str) -> Iterator[Task]:
    printed = time.monotonic()
    for done, item in enumerate(items, start=1):
        if time.monotonic() - printed >= EVERY:
            printed = time.monotonic()
            print(f"{what}: {done:,} of {total:,}", file=sys.stderr, flush=True)
        yield item
