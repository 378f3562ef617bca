"""Signals stop a run after the running step, with everything saved."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

# SIGUSR2 is what submitit has Slurm send before the time limit and at preemption; Windows has none.
SIGNALS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGUSR2] if hasattr(signal, "SIGUSR2") else []))


class Interrupted(KeyboardInterrupt):
    """The signal `signum` stopped the run; its checkpoint is written."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


class Pruned(Exception):
    """The run's watcher ended it, for the reason in the message; the run can be resumed."""


class Stop:
    """The signal that asked for a stop, if one did; a second one interrupts the step, unless `patient`."""

    everywhere: ClassVar[int | None] = None  # asks every block of this process, in any thread

    def __init__(self, patient: bool = False) -> None:
        self.patient = patient
        self._received: int | None = None

    @property
    def signum(self) -> int | None:
        """The signal, None as long as there was none."""
        return Stop.everywhere if self._received is None else self._received

    def handle(self, signum: int, _: Any) -> None:
        """Notes a signal."""
        if self._received is not None and not self.patient:
            raise Interrupted(signum)
        self._received = signum


@contextmanager
def stop_signals(patient: bool = False) -> Iterator[Stop]:
    """Catches `SIGNALS` in a block of the main thread; other threads receive no signals."""
    stop = Stop(patient)
    try:
        before = {number: signal.signal(number, stop.handle) for number in SIGNALS}
    except ValueError:
        before = {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupt_behind(error: BaseException) -> KeyboardInterrupt | None:
    """The interrupt that another error hides: OmegaConf's clean-up fails if a signal arrives in the middle of it."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__context__
    return found
