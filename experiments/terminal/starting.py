"""A line on the terminal while the libraries load, which takes seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

LINE = "loading torch and Hydra ..."


@contextmanager
def loading() -> Iterator[None]:
    """Shows the line while the block runs, if standard error is a terminal."""
    shown = sys.stderr is not None and sys.stderr.isatty()
    if shown:
        print(LINE, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print(f"\r{'':<{len(LINE)}}\r", end="", file=sys.stderr, flush=True)
