"""One run, from a composed configuration to its result; needs no command line."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from experiments.config.choices import GROUPS, NOT_HASHED, Choices, choose, config_hash
from experiments.config.keys import hyperparameters, option_name
from experiments.config.settings import Settings
from experiments.data import load as load_data
from experiments.diagnostics.diagnostics import Diagnostics
from experiments.measuring.nonfinite import Diverged
from experiments.terminal.summary import closing_table
from experiments.tracking import checkpoint
from experiments.tracking.environment import environment
from experiments.tracking.metrics import MetricsLog
from experiments.tracking.run_errors import FolderError, LogChanged, RunOver, is_storage, storage_fault
from experiments.tracking.run_folder import RunFolder, find_cut_off
from experiments.tracking.run_status import DONE, FAILED, INTERRUPTED, NOT_APPLICABLE, is_cut_off
from experiments.tracking.strict_json import write_json
from experiments.tracking.tensorboard import CurveWriter
from experiments.training.build import build_model, drop_unused_knobs, floating, prepare
from experiments.training.interruption import Pruned
from experiments.training.record import Record
from experiments.training.session import Session
from experiments.training.trainer import Trainer
from surrogates import EmptyCell, calibrate

# What a run can go on after: a signal, a watcher's wish, a file that has to be put back first.
RESUMABLE = (KeyboardInterrupt, Pruned, LogChanged, checkpoint.CheckpointError)
SHOWN_METRICS = ("accuracy/val", "accuracy/test", "accuracy/val_soft", "loss/val", "loss/train", "grad_norm/total")


@dataclasses.dataclass(frozen=True)
class Request:
    """What to run and where.

    `search` is the folder under which a cut-off run of the same configuration may be continued instead; `overrides` and
    `argv` are what the user typed; `quiet` leaves what the run says to its log; `columns` are the hyperparameters that
    all runs share; `hydra_files` go into `.hydra/`; `watch` is told the logged values of a step, and may raise Pruned.
    """

    config: DictConfig
    folder: Path
    search: Path | None = None
    overrides: Sequence[str] = ()
    argv: Sequence[str] = ()
    quiet: bool = False
    columns: Sequence[str] = ()
    hydra_files: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    watch: Callable[[int, Mapping[str, float]], None] | None = None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended: its folder, its status, its result if it has one, and why it has none."""

    folder: Path
    status: str
    result: Mapping[str, Any] | None = None
    reason: str | None = None


def run(request: Request) -> Outcome:
    """Runs what a configuration asks for; raises ConfigError, DataError or FolderError before any work is done.

    A run that diverges or is not applicable is an outcome with its reason; one that fails otherwise raises. Either
    way `status.json` says so.
    """
    choices = choose(request.config)
    settings, plain = choices.settings, choices.plain
    prepare(settings.threads, settings.device)
    try:
        model = build_model(choices)
    except EmptyCell as error:
        record_missing(request.folder, plain, str(error))
        return Outcome(request.folder, NOT_APPLICABLE, reason=str(error))
    notes = drop_unused_knobs(plain, model, request.overrides)
    loaded = load_data(choices.data)
    trainer = Trainer(model, choices.optimizer, settings, loaded.to(settings.device, floating(settings)))
    with claim(request, choices, plain) as folder:
        for note in [*notes, trainer.batches.note]:
            if note:
                folder.say(f"note: {note}")
        return _work(request, folder, plain, trainer, loaded.hashes())


def _work(
    request: Request, folder: RunFolder, plain: dict[str, Any], trainer: Trainer, hashes: dict[str, str]
) -> Outcome:
    record = None
    settings = trainer.settings
    try:
        environ = environment(request.argv, settings.threads, settings.device, hashes)
        state = checkpoint.load_latest(folder.checkpoints) if folder.resumed else None
        record = open_record(request, folder, plain, settings, environ, state)
        session = Session(trainer, record, request.watch)
        if state is None:
            calibrate(trainer.model, trainer.batch(1)[0])
        else:
            session.restore(state)
            folder.say(f"continuing {folder.path} from step {trainer.step}")
        with torch.autograd.set_detect_anomaly(settings.detect_anomaly):
            result = session.train(title(plain))
        record.close(success=True)
        folder.write_status(DONE)
    except BaseException as error:
        return broken_off(folder, record, error)
    folder.say(closing_table(result, folder.path))
    return Outcome(folder.path, DONE, result)


def title(plain: Mapping[str, Any]) -> str:
    """What a progress bar calls a run."""
    return " ".join(option_name(plain[group]) for group in ("component", "strategy"))


def broken_off(folder: RunFolder, record: Record | None, error: BaseException) -> Outcome:
    """Closes the files of a run that an error ended, as far as they can be written.

    The outcome of a divergence, or of a disk that takes no more; else the error itself is raised.
    """
    no_room = is_storage(error)
    interrupted = no_room or isinstance(error, RESUMABLE)
    if record is not None:
        with suppress(OSError):
            record.close(success=None if interrupted else False)
    reason = _words(folder, error)
    folder.say(reason, echo=False)
    status = INTERRUPTED if interrupted else FAILED
    with suppress(OSError):  # it stays RUNNING without a lock: cut off
        folder.write_status(status, reason)
    if no_room or isinstance(error, Diverged):
        return Outcome(folder.path, status, reason=reason)
    raise error


def _words(folder: RunFolder, error: BaseException) -> str:
    """What `status.json` says of an error: its message where it is meant for the user, else its trace."""
    if isinstance(error, OSError) and is_storage(error):
        return storage_fault(folder.path, error)
    if isinstance(error, (*RESUMABLE, Diverged)):
        return str(error) or "stopped by SIGINT"
    return "".join(traceback.format_exception(error))


def claim(request: Request, choices: Choices, plain: dict[str, Any]) -> RunFolder:
    """The asked-for folder, or that of a cut-off run of the same configuration."""
    digest, settings = config_hash(plain), choices.settings
    resume, retry = settings.resume == "auto", settings.retry == "failed"
    folder, earlier = None, None
    if resume and request.search is not None and not is_cut_off(request.folder):
        earlier = find_cut_off(request.search, digest)
    if earlier is not None:
        with suppress(FolderError):  # another process was faster
            folder = RunFolder.claim(earlier, digest, True, False, plain, NOT_HASHED)
    if folder is None:
        folder = RunFolder.claim(request.folder, digest, resume, settings.overwrite, plain, NOT_HASHED, retry)
    folder.quiet = request.quiet
    return folder


def open_record(
    request: Request,
    folder: RunFolder,
    plain: dict[str, Any],
    settings: Settings,
    environ: Mapping[str, Any],
    state: Mapping[str, Any] | None,
) -> Record:
    """Writes what a run starts with, and opens its curves and log where its checkpoint, if there is one, left them."""
    step = None if state is None else int(state["trainer"]["step"])
    log = MetricsLog(folder.metrics, step, state and state.get("log"))
    write_json(folder.env, environ)
    OmegaConf.save(plain, folder.config)
    for name, content in request.hydra_files.items():
        folder.hydra.mkdir(exist_ok=True)
        OmegaConf.save(content, folder.hydra / name)
    first = None if step is None else step + 1
    group = config_hash(plain, (*NOT_HASHED, "seed"))
    curves = CurveWriter(folder.path, hyperparameters(plain), SHOWN_METRICS, group, first, (*GROUPS, *request.columns))
    return Record(folder, curves, log, Diagnostics(settings), step, state and state.get("findings"))


def record_missing(folder: Path, plain: dict[str, Any], reason: str) -> None:
    """Notes in a folder that its cell does not exist; raises FolderError where it holds another run."""
    try:
        claimed = RunFolder.claim(folder, config_hash(plain), True, plain["overwrite"], plain, NOT_HASHED)
    except RunOver as over:
        if over.status != NOT_APPLICABLE:
            raise
        return
    with claimed:
        OmegaConf.save(plain, claimed.config)
        claimed.write_status(NOT_APPLICABLE, reason)
