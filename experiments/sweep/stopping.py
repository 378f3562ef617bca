"""How a command that is stopped has the processes of another launcher save first."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.sweep.command_folder import has_workers, interrupt
from experiments.training.interruption import Interrupted

EVERY = 0.1  # seconds between two looks at the workers


@contextmanager
def save_before_stopping(root: Path, name: str) -> Iterator[None]:
    """A signal asks the command's workers to save and to stop, and waits for them; a second one does not wait.

    A launcher that is interrupted kills its workers at once.
    """
    received: int | None = None

    def stop(signum: int, _: Any) -> None:
        nonlocal received
        if received is not None:
            raise Interrupted(received)
        received = signal.SIGINT if from_terminal.is_set() else signum
        interrupt(root, name)
        while has_workers(root, name):
            time.sleep(EVERY)
        raise Interrupted(received)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with _interrupts_as_sigterm() as from_terminal:
            yield
    except KeyboardInterrupt as error:  # Ray raises one of its own
        raise error if received is None else Interrupted(received) from None
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _interrupts_as_sigterm() -> Iterator[threading.Event]:
    """Ctrl-C, which a terminal sends to all processes, reaches this one alone, as SIGTERM; the event says so.

    Processes that start in the block inherit that SIGINT is blocked. One thread receives it, and wakes the main thread.
    """
    came, (reader, writer) = threading.Event(), os.pipe()
    os.set_blocking(writer, False)

    def receive() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while number := os.read(reader, 1):
            if ord(number) == signal.SIGINT:
                came.set()
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    handler = signal.signal(signal.SIGINT, lambda *_: None)
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield came
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(writer)
        thread.join()
        os.close(reader)
