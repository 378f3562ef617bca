"""What a command keeps in a sweep's root while it is at work there: a lock, the sign to stop, the files of its units.

A command that was killed leaves its folder behind. Jobs of it that a cluster may still start need their unit's file, so
a later command clears the folder once all of them are over.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from experiments.sweep.manifest import locked
from experiments.sweep.unit_files import run_folders_of
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import DONE, FAILED, NOT_APPLICABLE, is_alive, read_status

PREFIX = ".command-"


def is_stopped(root: Path, name: str) -> bool:
    """Whether one of the command's jobs has failed with on_error=stop; true on whatever machine it is asked."""
    return _stop_sign(root, name).exists()


def stop(root: Path, name: str) -> None:
    """Has the command start no further job."""
    sign = _stop_sign(root, name)
    sign.parent.mkdir(exist_ok=True)  # a sweeper of others makes none
    sign.touch()


def unit_folder(root: Path, name: str) -> Path:
    """Where the files of the command's units are."""
    return _command_folder(root, name) / "units"


@contextmanager
def at_work(root: Path, name: str) -> Iterator[None]:
    """Keeps the command's folder while the block runs; in the end it goes, and those of dead commands with it.

    Where the block is broken off, the files of units with jobs that are not over stay.
    """
    folder = _command_folder(root, name)
    lock = FileLock(RunPaths(folder).lock, timeout=0)
    with locked(root):
        folder.mkdir()
        lock.acquire()
    try:
        yield
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        _stop_sign(root, name).unlink(missing_ok=True)
        lock.release()
        if root.is_dir():
            _clear(root)


def _command_folder(root: Path, name: str) -> Path:
    return root / f"{PREFIX}{name}"


def _stop_sign(root: Path, name: str) -> Path:
    return _command_folder(root, name) / "stopped"


def _clear(root: Path) -> None:
    with locked(root):
        for folder in root.glob(f"{PREFIX}*"):
            if not _is_needed(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_needed(folder: Path) -> bool:
    """Whether its command is alive, as one of another sweeper is taken to be, which locks none, or units are left."""
    if is_alive(folder) or not RunPaths(folder).lock.exists():
        return True
    try:
        return not all(_is_over(run) for run in run_folders_of(folder / "units"))
    except (OSError, ValueError, KeyError, TypeError):  # damaged: what it is for cannot be told
        return True


def _is_over(run: Path) -> bool:
    status = read_status(run)
    return status is not None and status["status"] in (DONE, FAILED, NOT_APPLICABLE)
