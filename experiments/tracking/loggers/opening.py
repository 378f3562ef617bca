"""Opens the loggers of a run by their names, and keeps their ids in the run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.tracking.loggers.logger import LoggedRun, Logger, ResumableLogger
from experiments.tracking.loggers.names import TENSORBOARD, logger_class
from experiments.tracking.loggers.tolerant import Tolerant, describe
from experiments.tracking.run_errors import FolderError, LogChanged
from experiments.tracking.run_folder import RunFolder
from experiments.tracking.strict_json import DamagedFile, read_json, write_json
from experiments.tracking.tensorboard import CurveWriter


class LoggerFailed(FolderError):
    """Raised before the first step if a logger cannot be opened; the message says why and what to do."""


def open_loggers(
    names: Sequence[str], folder: RunFolder, config: Mapping[str, object], first_step: int | None
) -> list[Logger]:
    """Opens the loggers; `config` is flat, `first_step` the first step of a resumed run.

    Errors of TensorBoard's files are those of the run's own files. Any other logger may fail without ending the run.
    Raises LoggerFailed if a logger cannot be opened.
    Raises LogChanged if the ids of an earlier session are damaged.
    """
    chosen = dict.fromkeys(names)
    ids = {} if set(chosen) <= {TENSORBOARD} else _read_ids(folder)
    opened: list[Logger] = []
    for name in chosen:
        if name == TENSORBOARD:
            opened.append(CurveWriter(folder.path, config, first_step))
            continue
        logger = _open(name, LoggedRun(folder.path, config, first_step, ids.get(name)))
        ids[name] = logger.id
        write_json(folder.loggers, ids)
        opened.append(Tolerant(name, logger, folder.say))
    return opened


def _open(name: str, run: LoggedRun) -> ResumableLogger:
    try:
        opened: ResumableLogger = logger_class(name)(run)
        return opened
    except Exception as error:
        raise LoggerFailed(
            f"the logger {name} cannot be opened ({describe(error)}), so training did not start. Repair it and repeat "
            "the command, or choose others with loggers=..."
        ) from error


def _read_ids(folder: RunFolder) -> dict[str, Any]:
    if not folder.loggers.exists():
        return {}
    try:
        found = read_json(folder.loggers)
        if not isinstance(found, dict):
            raise DamagedFile(folder.loggers, "does not hold the ids of loggers")
    except DamagedFile as error:
        raise LogChanged(folder.loggers, error.fault, f"; loggers={TENSORBOARD} resumes the run without it") from error
    return found
