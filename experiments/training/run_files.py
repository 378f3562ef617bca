"""Claims a run's folder, opens its files, and writes its status when it ends."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from experiments.config.choices import Choices
from experiments.config.config_hash import NOT_HASHED, config_hash
from experiments.config.keys import hyperparameters, option_name
from experiments.diagnostics.diagnostics import Diagnostics
from experiments.measuring.nonfinite import Diverged
from experiments.tracking import checkpoint
from experiments.tracking.loggers.opening import LoggerFailed, open_loggers
from experiments.tracking.metrics import MetricsLog, lines_to_keep
from experiments.tracking.run_errors import FolderError, LogChanged, is_storage, storage_fault
from experiments.tracking.run_folder import RunFolder, find_cut_off
from experiments.tracking.run_status import FAILED, INTERRUPTED, is_cut_off
from experiments.tracking.strict_json import write_json
from experiments.tracking.strict_yaml import write_yaml
from experiments.training.interruption import Pruned, interrupt_behind
from experiments.training.record import Record
from experiments.training.request import Outcome, Request

# A run can be resumed after a signal, a pruning, or once the user has restored a file or repaired a logger.
RESUMABLE = (KeyboardInterrupt, Pruned, LogChanged, LoggerFailed, checkpoint.CheckpointError)


def claim(request: Request, choices: Choices) -> RunFolder:
    """Claims the requested folder, or the folder of an interrupted run of the same configuration."""
    plain, settings = choices.plain, choices.settings
    digest, resume, retry = config_hash(plain), settings.resume == "auto", settings.retry == "failed"
    folder, earlier = None, None
    if resume and request.search is not None and not is_cut_off(request.folder):
        earlier = find_cut_off(request.search, digest)
    if earlier is not None:
        with suppress(FolderError):  # another process has claimed it
            folder = RunFolder.claim(earlier, digest, True, False, plain, NOT_HASHED)
    if folder is None:
        folder = RunFolder.claim(request.folder, digest, resume, settings.overwrite, plain, NOT_HASHED, retry)
    folder.quiet = request.quiet
    return folder


def open_record(
    request: Request,
    folder: RunFolder,
    choices: Choices,
    environ: Mapping[str, Any],
    state: Mapping[str, Any] | None,
) -> Record:
    """Writes the first files of a run; opens its loggers and log, for a resumed run at the step of its checkpoint."""
    plain = choices.plain
    step = None if state is None else int(state["trainer"]["step"])
    diagnostics = Diagnostics(choices.settings)
    if step is not None and diagnostics.kinds:
        lines_to_keep(folder.metrics, step, state and state.get("log"))  # an error leaves the other log unchanged
    findings = _open_findings(folder, step, state) if diagnostics.kinds else None
    log = MetricsLog(folder.metrics, step, state and state.get("log"))
    folder.seal(files=False)
    write_json(folder.env, {**environ, **({"options": dict(request.options)} if request.options else {})})
    write_yaml(folder.config, plain)
    for name, content in request.hydra_files.items():
        folder.hydra.mkdir(exist_ok=True)
        write_yaml(folder.hydra / name, content)
    first = None if step is None else step + 1
    loggers = open_loggers(choices.settings.logger_names, folder, hyperparameters(plain, request.options), first)
    title = " ".join(option_name(plain[group]) for group in ("component", "strategy"))
    test_sha256 = environ["data_hashes"]["test"]
    return Record(folder, loggers, log, diagnostics, step, test_sha256, findings, title, request.watch)


def _open_findings(folder: RunFolder, step: int | None, state: Mapping[str, Any] | None) -> MetricsLog:
    """Opens the log of diagnostics. The checkpoint of a run without diagnostics has no mark for this log."""
    path, mark = folder.diagnostics, state and state.get("findings")
    try:
        return MetricsLog(path, step if mark is not None or path.exists() else None, mark)
    except LogChanged as error:
        raise LogChanged(path, error.fault, "; diagnostics=null resumes the run without it") from error


def end_early(folder: RunFolder, record: Record | None, error: BaseException) -> Outcome:
    """Closes the files of a run that an error ended, if they can still be written.

    Returns the outcome if the run diverged or the disk cannot be written. Raises every other error again.
    """
    error = interrupt_behind(error) or error
    no_room = is_storage(error)
    interrupted = no_room or isinstance(error, RESUMABLE)
    if record is not None:
        with suppress(OSError):
            record.close(success=None if interrupted else False)
    reason = _to_words(folder, error)
    folder.say(reason, echo=False)
    status = INTERRUPTED if interrupted else FAILED
    with suppress(OSError):  # then the status stays RUNNING without a lock, which means interrupted
        folder.write_status(status, reason)
    if no_room or isinstance(error, Diverged):
        return Outcome(folder.path, status, reason=reason)
    raise error


def _to_words(folder: RunFolder, error: BaseException) -> str:
    """The error as text for `status.json`: a message that is written for the user, else the traceback."""
    if isinstance(error, OSError) and is_storage(error):
        return storage_fault(folder.path, error)
    if isinstance(error, (*RESUMABLE, Diverged)):
        return str(error) or "stopped by SIGINT"
    return "".join(traceback.format_exception(error))
