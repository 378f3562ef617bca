"""Stopping at a signal: after the running step, with everything saved."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Stopped by a signal, with a checkpoint written; `signum` says which."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


class Pruned(Exception):
    """Broken off by whoever watches the run; the message says why. It could go on."""


class Stop:
    """Whether a signal has asked for a stop; a second one does not wait for the step to end, unless `patient`."""

    signum: int | None = None

    def __init__(self, patient: bool = False) -> None:
        self.patient = patient

    def handle(self, signum: int, _: Any) -> None:
        """Takes note of a signal."""
        if self.signum is not None and not self.patient:
            raise Interrupted(signum)
        self.signum = signum


@contextmanager
def stop_signals(patient: bool = False) -> Iterator[Stop]:
    """Catches SIGINT and SIGTERM in a block of the main thread; elsewhere there is nothing to catch."""
    stop = Stop(patient)
    try:
        before = {number: signal.signal(number, stop.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:
        before = {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
