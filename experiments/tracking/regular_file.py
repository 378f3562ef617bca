"""Opens and reads files of a run folder: regular files only, of a bounded size, never through a link.

Reading a FIFO or a device would wait, a link may lead out of the folder, and a sparse file may claim any size.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

# Bytes that a file read at once may have, by its name or suffix; this program writes no larger ones.
MOST_BYTES = {
    "status.json": 2**20,
    "env.json": 2**20,
    "result.json": 2**24,
    ".yaml": 2**20,
    ".json": 2**26,
    ".pt": 2**35,
}
MOST_LINE = 2**24  # bytes of a line of a log; the rest of a longer one counts as the next line

_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_SAFE_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_CHUNK = 2**20


def odd_kind(path: Path) -> str | None:
    """Names the kind of `path` if it is not a regular file; None if it is regular or absent."""
    try:
        return _KINDS.get(stat.S_IFMT(os.lstat(path).st_mode))
    except OSError:  # absent or out of reach: opening it raises the error
        return None


def regular(path: str, flags: int) -> int:
    """Opens a regular file, as `opener` of `open`; touches no other file, and does not wait for one.

    Raises OSError, with the kind of the file, if it is not regular.
    """
    try:
        descriptor = os.open(path, flags & ~os.O_TRUNC | _SAFE_FLAGS, 0o666)
    except OSError:
        _refuse(path, odd_kind(Path(path)))
        raise
    try:
        _refuse(path, _KINDS.get(stat.S_IFMT(os.fstat(descriptor).st_mode)))
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_bytes(path: Path) -> bytes:
    """Reads all of a file.

    Raises OSError if it is not regular, or is larger than MOST_BYTES allows.
    """
    with open(path, "rb", opener=regular) as file:
        refuse_too_large(file, path)
        return file.read()


def refuse_too_large(file: BinaryIO, path: Path) -> None:
    """Raises OSError if an open file is larger than MOST_BYTES allows."""
    size, most = os.fstat(file.fileno()).st_size, MOST_BYTES.get(path.name) or MOST_BYTES[path.suffix]
    if size > most:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, more than the {most:,} that a run may write", str(path))


def read_lines(path: Path) -> Iterator[bytes]:
    """Yields the lines with their ends; an incomplete last line has none.

    Raises OSError if the file is not regular.
    """
    with open(path, "rb", opener=regular) as file:
        while line := file.readline(MOST_LINE):
            yield line


def hash_start(path: Path, size: int | None = None) -> tuple[int, Any]:
    """Hashes the first `size` bytes of a file, or all; returns how many there are, and their SHA-256."""
    with open(path, "rb", opener=regular) as file:
        return hash_rest(file, size)


def hash_rest(file: BinaryIO, size: int | None) -> tuple[int, Any]:
    """Hashes as `hash_start` does, from the current position of an open file."""
    digest, done = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK if size is None else min(_CHUNK, size - done)):
        digest.update(chunk)
        done += len(chunk)
    return done, digest


def _refuse(path: str, kind: str | None) -> None:
    if kind == "a folder":  # the system's words
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if kind is not None:
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", path)
