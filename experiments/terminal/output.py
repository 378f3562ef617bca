"""Standard output and error that a run outlives: their reader may leave, their disk fill up, their letters be few."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Lasting:
    """A stream that drops what cannot be written: what a run says is in its `train.log` all the same."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> None:
        """Writes as far as that is possible."""
        self._tried(self._stream.write, text)

    def flush(self) -> None:
        """Flushes as far as that is possible."""
        self._tried(self._stream.flush)

    def _tried(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            function(*arguments)
        except OSError:
            with suppress(OSError), open(os.devnull, "w") as nowhere:  # also for what is left in buffers at the end
                os.dup2(nowhere.fileno(), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def lasting_output() -> Iterator[None]:
    """Makes standard output and error such streams in a block; where there is none, nothing."""
    before = sys.stdout, sys.stderr
    streams = [stream and Lasting(stream) for stream in before]
    sys.stdout, sys.stderr = streams
    try:
        yield
    finally:
        for stream in streams:
            if stream is not None:
                stream.flush()
        sys.stdout, sys.stderr = before
