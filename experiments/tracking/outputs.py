"""Files that a command writes where its user asks for them: whole or not at all, and each failure in words."""

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
    """A place that cannot be written to, found before work starts; the message names it and the reason."""


class OutputFailed(Exception):
    """A file that could not be written; the message names it and the reason."""


def check_folder(folder: Path, file: str = "") -> None:
    """Raises OutputRefused unless files can be made in `folder`, which is made for the moment if it does not exist.

    `file` is the name of one that will be.
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
    """Raises OutputRefused unless `path` can be made, and for one that exists."""
    if os.path.lexists(path):
        raise OutputRefused(f"{path} exists and is left as it is; name a new file")
    check_folder(path.parent, path.name)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Raises OutputFailed, with the name of `path`, for an OSError of the block."""
    try:
        yield
    except OSError as error:
        raise OutputFailed(f"{path} cannot be written ({reason(error)})") from error


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """A binary file that replaces `path` once the block has ended; its folder is made. Raises OutputFailed."""
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            yield file


def write_text(path: Path, text: str) -> None:
    """Writes a text as UTF-8. Raises OutputFailed."""
    with output_file(path) as file:
        file.write(text.encode())


def save_figure(figure: Any, path: Path, **settings: Any) -> None:
    """Writes one of matplotlib's figures in the form that the path's suffix names. Raises OutputFailed."""
    with output_file(path) as file:
        figure.savefig(file, format=path.suffix[1:], **settings)
