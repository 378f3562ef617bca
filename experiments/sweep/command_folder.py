"""The folder of a running command in a sweep's root: a lock, two flags that stop its jobs, and its unit files.

The folder of a killed command stays, because a cluster may still start jobs that need their unit file. A later command
removes it once all of these jobs have ended.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from experiments.sweep.ending import NotStarted
from experiments.sweep.manifest import lock_root
from experiments.sweep.unit_files import run_folders_of
from experiments.sweep.worker import follow
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import DONE, FAILED, NOT_APPLICABLE, is_alive, read_status

PREFIX = ".command-"
LAST_SECONDS = 5.0  # in which a command that has removed its folder ends its workers itself


def is_stopped(root: Path, name: str) -> bool:
    """Whether one of the command's jobs has failed with on_error=stop, on this machine or another."""
    return _stop_sign(root, name).exists()


def refuse_if_stopped(root: Path, name: str) -> None:
    """Raises NotStarted if a failed job has stopped the command, or a signal has interrupted it."""
    if is_stopped(root, name):
        raise NotStarted("on_error=stop, and another job failed")
    if _interrupted_sign(root, name).exists():
        raise NotStarted("the command was stopped")


def stop(root: Path, name: str) -> None:
    """Sets the flag that keeps the command from starting further jobs."""
    sign = _stop_sign(root, name)
    sign.parent.mkdir(exist_ok=True)  # other sweepers do not make the folder
    sign.touch()


def interrupt(root: Path, name: str) -> None:
    """Sets the flag at which all processes of the command save and stop."""
    _interrupted_sign(root, name).touch()


def follow_command(root: Path, name: str) -> None:
    """Makes this process save and stop when the command is interrupted or has died."""
    folder = _command_folder(root, name)

    def is_working() -> bool:
        if RunPaths(folder).lock.exists():
            return is_alive(folder)
        time.sleep(LAST_SECONDS)
        return False

    follow(is_working, _interrupted_sign(root, name).exists)


@contextmanager
def worker_of(root: Path, name: str) -> Iterator[None]:
    """Has the command, when it is stopped, wait for the block; raises NotStarted if it is stopped already, or over."""
    folder = _workers(root, name) / f"{platform.node()}-{os.getpid()}"
    try:
        folder.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise NotStarted("the command was stopped") from None
    with FileLock(RunPaths(folder).lock):
        refuse_if_stopped(root, name)
        yield


def has_workers(root: Path, name: str) -> bool:
    """Whether a process is in a `worker_of` block of the command."""
    return any(map(is_alive, _workers(root, name).iterdir()))


def unit_folder(root: Path, name: str) -> Path:
    """The folder of the command's unit files."""
    return _command_folder(root, name) / "units"


@contextmanager
def at_work(root: Path, name: str) -> Iterator[None]:
    """Makes and locks the command's folder; after the block removes it, and the folders of dead commands.

    If the block raises, the folder stays as long as a unit file has unfinished jobs.
    """
    folder = _command_folder(root, name)
    lock = FileLock(RunPaths(folder).lock, timeout=0)
    with lock_root(root):
        _workers(root, name).mkdir(parents=True)
        lock.acquire()
    try:
        yield
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        for sign in (_stop_sign(root, name), _interrupted_sign(root, name)):
            sign.unlink(missing_ok=True)
        lock.release()
        if root.is_dir():
            _clear(root)


def _command_folder(root: Path, name: str) -> Path:
    return root / f"{PREFIX}{name}"


def _workers(root: Path, name: str) -> Path:
    return _command_folder(root, name) / "workers"


def _stop_sign(root: Path, name: str) -> Path:
    return _command_folder(root, name) / "stopped"


def _interrupted_sign(root: Path, name: str) -> Path:
    return _command_folder(root, name) / "interrupted"


def _clear(root: Path) -> None:
    with lock_root(root):
        for folder in root.glob(f"{PREFIX}*"):
            if not _is_needed(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_needed(folder: Path) -> bool:
    """Whether the folder's command may be alive, or one of its unit files has unfinished jobs."""
    if is_alive(folder) or not RunPaths(folder).lock.exists():  # another sweeper takes no lock
        return True
    try:
        return not all(_is_over(run) for run in run_folders_of(folder / "units"))
    except (OSError, ValueError, KeyError, TypeError):  # a damaged file
        return True


def _is_over(run: Path) -> bool:
    status = read_status(run)
    return status is not None and status["status"] in (DONE, FAILED, NOT_APPLICABLE)
