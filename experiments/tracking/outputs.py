"""Writes the files that a user asks for: whole or not at all, with an error in words."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from experiments.tracking.atomic_file import replacing, temporary
from experiments.tracking.run_errors import FolderError, reason


class OutputRefused(FolderError):
    """Raised before work starts if a place cannot be written to; the message names it and the reason."""


class OutputFailed(Exception):
    """Raised if a file could not be written; the message names it and the reason."""


def check_folder(folder: Path, file: str = "") -> None:
    """Raises OutputRefused if no file can be made in `folder`; a missing folder is made for the check and removed.

    `file` is the name of a file that will be written there.
    """
    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder), suppress(FileNotFoundError):
            os.lstat(temporary(folder / file) if file else folder)  # fails for a name that is too long
    except OSError as error:
        fault = "it is not a folder" if isinstance(error, FileExistsError) else reason(error)
        raise OutputRefused(f"{folder / file} cannot be written ({fault}); choose another place") from None
    finally:
        for path in missing:
            with suppress(OSError):
                path.rmdir()


def check_new_file(path: Path) -> None:
    """Raises OutputRefused if `path` exists or cannot be made."""
    if os.path.lexists(path):
        raise OutputRefused(f"{path} exists and is not overwritten; name a new file")
    check_folder(path.parent, path.name)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Raises OutputFailed, with the name of `path`, if the block raises an OSError."""
    try:
        yield
    except OSError as error:
        raise OutputFailed(f"{path} cannot be written ({reason(error)})") from error


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a binary file that replaces `path` when the block ends; its folder is made.

    Raises OutputFailed if the file cannot be written.
    """
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            yield file


def write_text(path: Path, text: str) -> None:
    """Writes a text as UTF-8.

    Raises OutputFailed if the file cannot be written.
    """
    with output_file(path) as file:
        file.write(text.encode())


def save_figure(figure: Any, path: Path, **settings: Any) -> None:
    """Writes a figure of matplotlib in the format that the path's suffix names.

    Raises OutputFailed if the file cannot be written.
    """
    with output_file(path) as file:
        figure.savefig(file, format=path.suffix[1:], **settings)
