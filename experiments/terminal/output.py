"""Keeps a run going if its output cannot be written: a closed pipe, a full disk, a narrow encoding."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Lasting:
    """A stream that drops text it cannot write; a run's messages are in its `train.log` too."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> None:
        """Writes if possible."""
        self._try(self._stream.write, text)

    def flush(self) -> None:
        """Flushes if possible."""
        self._try(self._stream.flush)

    def _try(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            function(*arguments)
        except OSError:
            with suppress(OSError), open(os.devnull, "w") as nowhere:  # else the rest of the buffer fails at exit
                os.dup2(nowhere.fileno(), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def lasting_output() -> Iterator[None]:
    """Replaces standard output and error, if there are any, by `Lasting` streams while the block runs."""
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
