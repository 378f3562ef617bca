"""Replaces files whole or not at all, and appends whole additions or raises."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO

from experiments.tracking.regular_file import regular


def temporary(path: Path) -> Path:
    """Returns where the next content of `path` is written first: in the same folder, so that a rename can follow."""
    return path.with_name(f".{path.name}.tmp")


@contextmanager
def replacing(path: Path, keep_as: Path | None = None) -> Iterator[BinaryIO]:
    """Opens a binary file that replaces `path` when the block ends without an error.

    The earlier file is kept as `keep_as`. After an error `path` is unchanged.
    """
    scratch = temporary(path)
    try:
        with open(scratch, "wb", opener=regular) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if keep_as is not None and path.exists():
            os.replace(path, keep_as)
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_all(file: RawIOBase, content: bytes) -> None:
    """Writes all of `content` to an unbuffered file; an almost full disk writes a part and reports no error."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) or 0 :]


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # a folder cannot be opened elsewhere
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
