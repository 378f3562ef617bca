"""Reads and writes `status.json`; with the lock it says whether a run is alive, over or interrupted."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from experiments.tracking.regular_file import hash_start, odd_kind
from experiments.tracking.run_errors import reason
from experiments.tracking.run_paths import STATUS, RunPaths
from experiments.tracking.strict_json import DamagedFile, encode, read_json, write_json

RUNNING, DONE, FAILED, INTERRUPTED, NOT_APPLICABLE = STATUSES = (
    "RUNNING",
    "DONE",
    "FAILED",
    "INTERRUPTED",
    "NOT_APPLICABLE",
)
SEAL = "sha256"  # key of the checksums of the status itself and of the files that the run left behind


def timestamp() -> str:
    """Returns the time in UTC, as text that sorts by time."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


def read_status(path: str | Path) -> dict[str, Any] | None:
    """Reads `status.json` in the folder `path`; None if there is none.

    Raises DamagedFile if the file cannot be read, is not the status of a run, or was changed after the run wrote it.
    """
    file = RunPaths(path).status
    if not os.path.lexists(file):
        return None
    try:
        status = read_json(file)
    except OSError as error:
        raise DamagedFile(file, f"cannot be read ({reason(error)})") from error
    if not isinstance(status, dict) or status.get("status") not in STATUSES or "config_hash" not in status:
        raise DamagedFile(file, f"is not the status of a run, which is one of {', '.join(STATUSES)}")
    seal = status.setdefault(SEAL, {})  # earlier versions wrote none
    if not isinstance(seal, dict) or seal.pop(STATUS, None) not in (None, _digest(status)):
        raise DamagedFile(file, "does not match its own checksum: it was changed or damaged")
    return status


def write_status(path: Path, status: Mapping[str, Any], seal: Mapping[str, Any]) -> None:
    """Writes `status.json` with the checksums of other files, and its own."""
    sealed = {**status, SEAL: dict(seal)}
    write_json(path, {**sealed, SEAL: {**seal, STATUS: _digest(sealed)}})


def make_seal(run: RunPaths) -> dict[str, Any]:
    """Returns size and checksum by name of the files that readers of a run use; checkpoints hold their own."""
    files = (run.config, run.env, run.metrics, run.diagnostics, run.result, run.test_outcomes)
    hashed = {file.name: hash_start(file) for file in files if file.is_file()}
    return {name: {"bytes": size, SEAL: digest.hexdigest()} for name, (size, digest) in hashed.items()}


def check_sealed(status: Mapping[str, Any], file: Path) -> None:
    """Raises DamagedFile if a file was changed after the run wrote it.

    Raises OSError if the file cannot be read.
    """
    left = status[SEAL].get(file.name)
    if left is None:  # the run was killed, or is of an earlier version
        return
    size, digest = hash_start(file, left["bytes"] + 1)
    if (size, digest.hexdigest()) != (left["bytes"], left[SEAL]):
        fault = f"does not match its checksum in {STATUS}: it was changed or damaged, or belongs to another run"
        raise DamagedFile(file, fault)


def _digest(status: Mapping[str, Any]) -> str:
    return hashlib.sha256(encode(status).encode()).hexdigest()


def last_line(status: Mapping[str, Any]) -> str:
    """Returns the last line of a run's error; empty if the run has none."""
    return str(status.get("error") or "").strip().rpartition("\n")[2].strip()


def is_alive(path: str | Path) -> bool:
    """Whether a process holds the lock of the run folder `path`."""
    lock = RunPaths(path).lock
    if not os.path.lexists(lock):
        return False
    if odd_kind(lock):  # such a file cannot be locked
        return True
    probe = FileLock(lock, timeout=0)
    try:
        probe.acquire()
    except (Timeout, OSError):  # a file that cannot be locked here cannot be resumed here
        return True
    probe.release()
    return False


def is_cut_off(path: str | Path) -> bool:
    """Whether `path` holds an interrupted run: INTERRUPTED, or RUNNING and not alive."""
    try:
        status = read_status(path)
    except DamagedFile:  # or a foreign file
        return False
    return status is not None and status["status"] in (RUNNING, INTERRUPTED) and not is_alive(path)


def run_folders(root: str | Path) -> Iterator[Path]:
    """Lists all run folders under `root`, itself included, sorted; it does not look inside run folders."""
    for folder, folders, files in os.walk(root):
        folders[:] = [] if STATUS in files else sorted(name for name in folders if name[0] != ".")
        if STATUS in files:
            yield Path(folder)


def find_cut_off(root: str | Path, config_hash: str) -> Path | None:
    """Finds the interrupted run of that configuration under `root` that was started last; None if there is none."""
    found = []
    for folder in run_folders(root):
        try:
            status = read_status(folder)
        except DamagedFile:  # a foreign status.json
            continue
        if status is not None and status["config_hash"] == config_hash and is_cut_off(folder):
            found.append((str(status.get("started")), folder))
    return max(found)[1] if found else None
