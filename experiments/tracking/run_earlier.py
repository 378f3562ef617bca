"""Checks the earlier content of a locked folder: nothing, a run, or foreign files."""

import os
from collections.abc import Collection, Mapping
from typing import Any

from experiments.tracking.atomic_file import temporary
from experiments.tracking.flat_config import differences
from experiments.tracking.regular_file import odd_kind
from experiments.tracking.run_errors import ConfigDiffers, FolderError, RunCutOff, RunOver
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import FAILED, INTERRUPTED, RUNNING, last_line, read_status, write_status
from experiments.tracking.strict_yaml import read_yaml

_ELSE = "overwrite=true replaces it, another hydra.run.dir keeps it"
_MOVE = "move it away, or choose another hydra.run.dir"


def earlier_run(run: RunPaths) -> dict[str, Any] | None:
    """Returns the status of the run in the folder, None if the folder is empty.

    Raises FolderError if the folder has files but no run.
    """
    try:
        status = read_status(run.path)
    except ValueError as error:
        raise FolderError(f"{error}; choose another hydra.run.dir") from error
    if status is None:
        ours = {run.lock.name, temporary(run.status).name}
        foreign = sorted(file.name for file in run.path.iterdir() if file.name not in ours)
        if foreign:
            raise FolderError(f"{run.path} has files ({foreign[0]}, ...) but no run; choose another hydra.run.dir")
    return status


def refuse_odd_files(run: RunPaths) -> None:
    """Raises FolderError if a link, FIFO, folder or device is where this program writes a file."""
    for path in (run.lock, run.status, temporary(run.status), *run.places()):
        if kind := odd_kind(path):
            raise FolderError(f"{path} is {kind}, not a regular file, so no run can write it; {_MOVE}")
    for path in (run.checkpoints, run.hydra):
        if os.path.lexists(path) and odd_kind(path) != "a folder":
            raise FolderError(f"{path} is {odd_kind(path) or 'a file'}, but a run needs a folder there; {_MOVE}")


def refuse_other_config(
    run: RunPaths, earlier: Mapping[str, Any], config_hash: str, config: Mapping[str, Any] | None, skip: Collection[str]
) -> None:
    """Raises ConfigDiffers, with the keys that differ, if the earlier run has another hash."""
    if earlier["config_hash"] == config_hash:
        return
    try:
        old = read_yaml(run.config)
        changes = differences(old, config, skip) if config is not None else []
    except Exception as error:  # whatever the fault of the file, the run is refused
        changes = [f"{run.config.name} cannot be read ({type(error).__name__}), so the keys are unknown"]
    if config is not None and not changes:
        fault = f"its hash is {earlier['config_hash']}, but {run.config.name} has {config_hash}"
        raise ConfigDiffers(f"{run.status} belongs to another run: {fault}; restore the right file, {_ELSE}")
    named = "; ".join(changes) or f"hash {earlier['config_hash']}, not {config_hash}"
    raise ConfigDiffers(f"{run.path} holds a run of another configuration ({named}); {_ELSE}")


def refuse_unless_resumable(run: RunPaths, earlier: Mapping[str, Any], resume: bool) -> None:
    """Raises RunOver if the run is over.

    Raises RunCutOff if the run was interrupted and `resume` is false.
    """
    status = earlier["status"]
    if status not in (RUNNING, INTERRUPTED):
        reason = ": ".join(filter(None, [status, last_line(earlier)]))
        anew = "retry=failed runs it again, " if status == FAILED else ""
        raise RunOver(f"{run.path} holds a run that is over ({reason}); {anew}{_ELSE}", status)
    if not resume:
        raise RunCutOff(f"{run.path} holds an interrupted run ({status}); resume=auto resumes it, {_ELSE}")


def remove_run(run: RunPaths, earlier: Mapping[str, Any]) -> None:
    """Removes the files of a run and no others; until all are removed, the run counts as interrupted."""
    write_status(run.status, {**earlier, "status": INTERRUPTED, "error": "interrupted during overwrite=true"}, {})
    for file in run.written():
        file.unlink()
    for folder in (run.checkpoints, run.hydra):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
