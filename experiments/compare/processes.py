"""Work spread over the machine's cores, in processes that start clean."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def spread(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """The function of every task, in their order; function and tasks must be such as can be pickled."""
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(tasks)), mp_context=get_context("spawn")) as pool:
        return list(pool.map(function, tasks))
