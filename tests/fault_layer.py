"""A disk that fails on demand: from the n-th operation on files below a folder, the system's error instead."""

from __future__ import annotations

import builtins
import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest

WRITING = set("wax+")


class FaultyDisk:
    """Counts opening for writing, writing, renaming and syncing below `folder`; from number `first` on they fail.

    Root may write anywhere, so permissions taken away would prove nothing in a test that root runs.
    """

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, fault: int = errno.ENOSPC, first: int = 10**9) -> None:
        self.folder, self.fault, self.first, self.count = str(folder), fault, first, 0
        self._open = builtins.open
        patch.setattr(builtins, "open", self.open)
        patch.setattr(io, "open", self.open)
        for name in ("replace", "mkdir"):
            patch.setattr(os, name, self._failing(getattr(os, name)))
        patch.setattr(os, "fsync", self._failing(os.fsync))

    def step(self, path: Any = None) -> None:
        self.count += 1
        if self.count >= self.first:
            raise OSError(self.fault, os.strerror(self.fault), path)

    def open(self, file: Any, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        ours = isinstance(file, str | bytes | Path) and os.fsdecode(file).startswith(self.folder)
        if not ours or not WRITING & set(mode):
            return self._open(file, mode, *arguments, **more)
        self.step(os.fsdecode(file))
        return _File(self._open(file, mode, *arguments, **more), self)

    def _failing(self, function: Any) -> Any:
        def called(path: Any, *arguments: Any, **more: Any) -> Any:
            if not isinstance(path, int) and not os.fsdecode(path).startswith(self.folder):
                return function(path, *arguments, **more)
            self.step(None if isinstance(path, int) else os.fsdecode(path))
            return function(path, *arguments, **more)

        return called


class _File:
    """An open file; a write that fails has put half of what was given on the disk, as a full one does."""

    def __init__(self, file: Any, disk: FaultyDisk) -> None:
        self._file, self._disk = file, disk

    def write(self, content: Any) -> Any:
        try:
            self._disk.step()
        except OSError:
            self._file.write(content[: len(content) // 2])
            self._file.flush()
            raise
        return self._file.write(content)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
