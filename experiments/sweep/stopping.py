"""How a command that is stopped has the processes of another launcher save first."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.sweep.command_folder import interrupt
from experiments.tracking.run_status import is_alive
from experiments.training.interruption import Interrupted

EVERY = 0.1  # seconds between two looks at the jobs
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def save_before_stopping(root: Path, name: str, folders: Sequence[Path]) -> Iterator[None]:
    """A signal asks the jobs in `folders` to save and to stop, and waits for them; a second one does not wait.

    A launcher that is interrupted kills its workers at once.
    """

    received: int | None = None

    def stop(signum: int, _: Any) -> None:
        nonlocal received
        received = signum
        restore()
        interrupt(root, name)
        while any(map(is_alive, folders)):
            time.sleep(EVERY)
        raise Interrupted(signum)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    except KeyboardInterrupt as error:  # Ray raises one of its own
        raise error if received is None else Interrupted(received) from None
    finally:
        restore()
