"""The file work of many runs at once: threads that wait for the disk together instead of one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

THREADS = 16  # a journalling file system commits what many wait for at once

Item = TypeVar("Item")
Result = TypeVar("Result")


def together(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """function(item) for every item, in their order; items are made a few at a time, in this thread.

    Raises what the first of those that fail raises, once those begun are over.
    """
    left, results = iter(items), list[Result]()
    with ThreadPoolExecutor(THREADS) as pool:
        while some := list(islice(left, THREADS)):
            results += pool.map(function, some)
    return results
