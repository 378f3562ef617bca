"""Files of data sets: where they are looked for, and how they are fetched when several jobs start at once."""

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

TIMEOUT = 60.0  # seconds without an answer or a byte after which a download counts as failed
FAILURES = (OSError, RuntimeError, ValueError, EOFError, HTTPException, zlib.error, tarfile.TarError)

T = TypeVar("T")


def root_folder(root: str | None) -> Path:
    """The absolute folder that `data.root` names, relative to the folder the program was started in."""
    from hydra.utils import to_absolute_path

    return Path(to_absolute_path(os.path.expanduser(root or "data")))


def obtain(read: Callable[[], T], fetch: Callable[[Path], None], root: Path, source: str, download: bool) -> T:
    """What `read()` returns; if that raises DataError and `download` is set, fetch the files and read again.

    `fetch(folder)` fills a staging folder inside `root`; its files are then moved into `root` one by one, each whole.
    One process fetches at a time, and those that waited find the files there. `source` is the URL, for messages.
    Raises DataError.
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
            f"download of {source} into {root} failed ({reason}). Place the files there by hand, point data.root to a "
            "folder that has them, or take a data set that needs no files, such as data=digits."
        ) from error
    return read()


def _fetch(fetch: Callable[[Path], None], root: Path) -> None:
    staging = root / ".hardgrad.staging"
    shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed: we hold the lock
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
    """torchvision opens URLs without a timeout of its own, so a silent host would hang the run."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
