"""Claims a run folder for one process, before anything in the folder is read or written."""

import errno
import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from experiments.tracking.regular_file import odd_kind, regular
from experiments.tracking.run_earlier import (
    earlier_run,
    refuse_odd_files,
    refuse_other_config,
    refuse_unless_resumable,
    remove_run,
)
from experiments.tracking.run_errors import FolderError as FolderError
from experiments.tracking.run_errors import FolderInUse as FolderInUse
from experiments.tracking.run_errors import reason, refuse_other_encoding
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import FAILED, RUNNING, SEAL, STATUSES, make_seal, timestamp, write_status
from experiments.tracking.run_status import find_cut_off as find_cut_off
from experiments.tracking.strict_json import write_json as write_json

_GRACE = 0.05  # seconds; `run_status.is_alive`, asked by another process, holds the lock for an instant


class RunFolder(RunPaths):
    """A claimed folder, made by `claim`; `release` or the end of the process frees it.

    `resumed`: the folder holds an interrupted run to resume. `quiet`: the run writes its messages to `train.log` only.
    """

    def __init__(self, path: str | Path, config_hash: str) -> None:
        super().__init__(path)
        self.config_hash = config_hash
        self.resumed = self.quiet = False
        self._started, self._earlier_seconds, self._clock = timestamp(), 0.0, time.monotonic()
        self._seal: dict[str, Any] = {}
        self._lock = FileLock(self.lock, thread_local=False)

    @classmethod
    def claim(
        cls,
        path: str | Path,
        config_hash: str,
        resume: bool,
        overwrite: bool,
        config: Mapping[str, Any] | None = None,
        not_hashed: Collection[str] = (),
        retry: bool = False,
    ) -> "RunFolder":
        """Locks the folder, checks that this run may use it, and writes RUNNING.

        An empty folder is accepted. `resume` also accepts an interrupted run of this hash, `retry` a failed run of
        this hash, `overwrite` any run that is not alive.
        Raises FolderError, with the differences to `config` except the keys `not_hashed`, if the folder is not
        accepted.
        """
        folder = cls(path, config_hash)
        folder._take_lock()
        try:
            earlier = earlier_run(folder)
            refuse_odd_files(folder)
            if earlier is not None and overwrite:
                remove_run(folder, earlier)
            elif earlier is not None:
                refuse_other_config(folder, earlier, config_hash, config, not_hashed)
                if retry and earlier["status"] == FAILED:
                    remove_run(folder, earlier)
                else:
                    refuse_unless_resumable(folder, earlier, resume)
                    folder._go_on(earlier)
            folder.write_status(RUNNING)
            return folder
        except OSError as error:
            folder._give_up()
            fault = f"cannot be used ({reason(error)})"
            raise FolderError(f"{error.filename or folder.path} {fault}; choose another hydra.run.dir") from error
        except BaseException:
            folder._give_up()
            raise

    def write_status(self, status: str, error: str | None = None, **more: Any) -> None:
        """Writes `status.json`; `seconds` is the time of all sessions of the run together.

        A run writes RUNNING again now and then, so that the time of a killed session is not lost.
        Raises ValueError if the status is unknown.
        Raises RuntimeError if the folder was released.
        """
        if status not in STATUSES:
            raise ValueError(f"there is no status {status!r}; choose one of {', '.join(STATUSES)}")
        if not self._lock.is_locked:
            raise RuntimeError(f"{self.path} was released; write only to a claimed folder")
        record = {
            "status": status,
            "config_hash": self.config_hash,
            "started": self._started,
            "ended": None if status == RUNNING else timestamp(),
            "seconds": round(self._earlier_seconds + time.monotonic() - self._clock, 3),
            "error": error,
        }
        self.refuse_if_moved()
        write_status(self.status, {**record, **more}, {} if status == RUNNING else self._seal)

    def seal(self, files: bool) -> None:
        """Takes checksums for the next status of a run that is over: of its `files`, or none."""
        self._seal = make_seal(self) if files else {}

    def refuse_if_moved(self) -> None:
        """Raises OSError if the folder is gone, or if another folder has taken its name."""
        try:
            there = os.stat(self.lock)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        if not os.path.samestat(there, self._held):
            raise OSError(errno.ESTALE, "another folder has taken its name", str(self.path))

    def say(self, text: str, echo: bool = True) -> None:
        """Adds lines to `train.log` if the disk has room; with `echo` also prints them, unless the run is `quiet`."""
        with suppress(OSError):
            self.refuse_if_moved()
            with open(self.log, "a", encoding="utf-8", opener=regular) as file:
                print(text, file=file)
        if echo and not self.quiet:
            print(text, flush=True)

    def release(self) -> None:
        """Frees the folder. A run that is still RUNNING then counts as interrupted."""
        self._lock.release()

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def _take_lock(self) -> None:
        refuse_other_encoding(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock_is_new = not os.path.lexists(self.lock)
            if kind := odd_kind(self.lock):
                raise FolderError(f"{self.lock} is {kind}, not a regular file; choose another hydra.run.dir")
            self._lock.acquire(timeout=_GRACE, poll_interval=_GRACE / 5)
            self._held = os.stat(self.lock)
        except Timeout as error:
            raise FolderInUse(f"{self.path} is in use by a live run; wait, or choose another hydra.run.dir") from error
        except OSError as error:
            fault = f"cannot be made or locked ({reason(error)})"
            raise FolderError(f"{self.path} {fault}; choose another hydra.run.dir") from error

    def _give_up(self) -> None:
        if self._lock_is_new and not self.status.exists():  # leaves no trace in a foreign folder
            self.lock.unlink(missing_ok=True)
        self.release()

    def _go_on(self, earlier: Mapping[str, Any]) -> None:
        self.resumed, self._seal = True, earlier[SEAL]
        try:
            self._started, self._earlier_seconds = str(earlier["started"]), float(earlier["seconds"])
        except (KeyError, TypeError, ValueError) as error:
            fault = "is damaged: it lacks when the run started, or how many seconds it took"
            raise FolderError(f"{self.status} {fault}; choose another hydra.run.dir") from error
