"""Finds the files of data sets, and downloads them once if several jobs start together."""

from __future__ import annotations

import os
import shutil
import socket
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import TypeVar

from filelock import FileLock

from experiments.data.dataset import DataError

TIMEOUT = 60.0  # a download fails after this many seconds without an answer or a byte
FAILURES = (OSError, RuntimeError, ValueError, EOFError, HTTPException, zlib.error, tarfile.TarError)

T = TypeVar("T")


def root_folder(root: str | None) -> Path:
    """Returns the absolute folder of `data.root`, which is relative to the folder where the program was started."""
    from hydra.utils import to_absolute_path

    return Path(to_absolute_path(os.path.expanduser(root or "data")))


def obtain(read: Callable[[], T], fetch: Callable[[Path], None], root: Path, source: str, download: bool) -> T:
    """Returns `read()`; if that raises DataError and `download` is set, downloads the files and reads again.

    `fetch(folder)` fills a staging folder inside `root`, whose files are then moved into `root` one by one.
    One process downloads at a time, and the others wait for its files. `source` is the URL, for messages.
    Raises DataError if the files cannot be read or downloaded.
    """
    try:
        return read()
    except DataError:
        if not download:
            raise
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / ".hardgrad.lock"):
            try:
                return read()
            except DataError:
                _fetch(fetch, root)
    except DataError:
        raise
    except FAILURES as error:
        reason = f"{type(error).__name__}: {error}".strip()
        raise DataError(
            f"download of {source} into {root} failed ({reason}). Put the files there by hand, set data.root to a "
            "folder that has them, or choose a data set that needs no files, such as data=digits."
        ) from error
    return read()


def _fetch(fetch: Callable[[Path], None], root: Path) -> None:
    staging = root / ".hardgrad.staging"
    shutil.rmtree(staging, ignore_errors=True)  # left by a killed process; this process holds the lock
    staging.mkdir()
    try:
        with _socket_timeout(TIMEOUT):
            fetch(staging)
        for path in sorted(staging.rglob("*")):
            if path.is_file():
                target = root / path.relative_to(staging)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _socket_timeout(seconds: float) -> Iterator[None]:
    """Sets a timeout, because torchvision opens URLs without one and a silent host would block the run."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
