"""How far a long report is: a bar on a terminal, a plain line now and then elsewhere; all of it on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

EVERY = 10.0  # seconds between two lines

Item = TypeVar("Item")


def watched(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """The items, with a bar that goes away when they are through, or with lines from the tenth second on."""
    if sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track

        return iter(track(items, what, total, console=Console(stderr=True), transient=True))
    return _lines(items, total, what)


def _lines(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    said = time.monotonic()
    for done, item in enumerate(items, start=1):
        if time.monotonic() - said >= EVERY:
            said = time.monotonic()
            print(f"{what}: {done:,} of {total:,}", file=sys.stderr, flush=True)
        yield item
