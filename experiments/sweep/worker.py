"""A process that runs jobs for a command: with the command it stops, everything saved, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from experiments.sweep.ending import NotStarted
from experiments.training.interruption import Stop

EVERY = 0.5  # seconds between two looks at the command
CODE = 128 + signal.SIGTERM

_at_work = threading.Lock()  # held while this process runs a job
_watched = threading.Event()


def follow(is_alive: Callable[[], bool], is_told: Callable[[], bool] = lambda: False) -> None:
    """Follows the command from now on: asks the jobs of this process to stop once it is told to, or is dead.

    After the death of the command this process ends as soon as its job is saved, wherever it waits: the queue of a
    dead process may hold half a message.
    """
    if not _watched.is_set():
        _watched.set()
        threading.Thread(target=_follow, args=(is_alive, is_told), daemon=True).start()


@contextmanager
def hold_process() -> Iterator[None]:
    """Keeps the process while it runs a job; raises NotStarted if it was asked to stop before."""
    if Stop.everywhere is not None:
        raise NotStarted("the command was stopped")
    with _at_work:
        yield


def _follow(is_alive: Callable[[], bool], is_told: Callable[[], bool]) -> None:
    while is_alive():
        if is_told():
            Stop.everywhere = signal.SIGTERM
        time.sleep(EVERY)
    Stop.everywhere = signal.SIGTERM
    with _at_work:
        os._exit(CODE)
