"""Opens and reads files of a run folder: regular files only, of a bounded size, never through a link.

A FIFO or a device would be waited for, a link leads out of the folder, and a sparse file may claim any size.
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
    """The kind of what is at `path`, in words, if it is something other than a regular file."""
    try:
        return _KINDS.get(stat.S_IFMT(os.lstat(path).st_mode))
    except OSError:  # absent, or out of reach: opening it says so
        return None


def regular(path: str, flags: int) -> int:
    """The `opener` for `open`, to read or write: nothing is truncated, read or waited for if the file is not regular.

    Raises OSError, with the kind of the file in words.
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
    """All of a file; raises OSError if it is not regular, or larger than MOST_BYTES allows."""
    with open(path, "rb", opener=regular) as file:
        refuse_too_large(file, path)
        return file.read()


def refuse_too_large(file: BinaryIO, path: Path) -> None:
    """Raises OSError if an open file is larger than MOST_BYTES allows for its name."""
    size, most = os.fstat(file.fileno()).st_size, MOST_BYTES.get(path.name) or MOST_BYTES[path.suffix]
    if size > most:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, more than the {most:,} of any that a run writes", str(path))


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines with their ends; the last one has none if it is half written. Raises OSError as `read_bytes` does."""
    with open(path, "rb", opener=regular) as file:
        while line := file.readline(MOST_LINE):
            yield line


def hash_start(path: Path, size: int | None = None) -> tuple[int, Any]:
    """How many of the first `size` bytes the file has, and their SHA-256; of all bytes without a size."""
    with open(path, "rb", opener=regular) as file:
        return hash_rest(file, size)


def hash_rest(file: BinaryIO, size: int | None) -> tuple[int, Any]:
    """`hash_start` from where an open file stands."""
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
