"""Stops a run at a signal: the current step ends, and a checkpoint is written."""

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
    """The run's `watch` function ended it; the message gives the reason. The run can be resumed."""


class Stop:
    """Keeps the signal that asked for a stop. A second signal interrupts the step, unless `patient`."""

    everywhere: ClassVar[int | None] = None  # a signal for every `Stop` of this process, in any thread

    def __init__(self, patient: bool = False) -> None:
        self.patient = patient
        self._received: int | None = None

    @property
    def signum(self) -> int | None:
        """The signal; None before it arrives."""
        return Stop.everywhere if self._received is None else self._received

    def handle(self, signum: int, _: Any) -> None:
        """Keeps the signal.

        Raises Interrupted at a second signal, unless `patient`.
        """
        if self._received is not None and not self.patient:
            raise Interrupted(signum)
        self._received = signum


@contextmanager
def stop_signals(patient: bool = False) -> Iterator[Stop]:
    """Catches `SIGNALS` while the block runs, in the main thread; other threads receive no signals."""
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
    """Finds the KeyboardInterrupt during which another error arose; None if there is none.

    OmegaConf raises such an error if a signal arrives during its clean-up.
    """
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__context__
    return found
