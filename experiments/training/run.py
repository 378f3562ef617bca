"""Trains one run, from its composed configuration to its result; needs no command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from experiments.config.choices import Choices, choose
from experiments.config.config_hash import NOT_HASHED, config_hash
from experiments.data import load as load_data
from experiments.measuring.nonfinite import Diverged
from experiments.terminal.console import fold
from experiments.terminal.summary import closing_table
from experiments.tracking import checkpoint
from experiments.tracking.environment import environment
from experiments.tracking.run_errors import RunOver
from experiments.tracking.run_folder import RunFolder
from experiments.tracking.run_status import DONE, NOT_APPLICABLE
from experiments.tracking.strict_yaml import write_yaml
from experiments.training.build import build_model, drop_unused_knobs, floating, prepare
from experiments.training.needs import note_long
from experiments.training.request import Outcome as Outcome
from experiments.training.request import Request as Request
from experiments.training.run_files import claim, end_early, open_record
from experiments.training.session import Session
from experiments.training.trainer import Trainer
from surrogates import EmptyCell, calibrate


def run(request: Request) -> Outcome:
    """Runs a configuration.

    Raises ConfigError, DataError or FolderError before any work if the run cannot start. A run that diverges or is not
    applicable returns an outcome with its reason. Any other failure raises. `status.json` records how the run ended.
    """
    choices = choose(request.config)
    settings, plain = choices.settings, choices.plain
    prepare(settings.threads, settings.device)
    try:
        model = build_model(choices, training=True)
    except EmptyCell as error:
        record_missing(request.folder, plain, str(error))
        return Outcome(request.folder, NOT_APPLICABLE, reason=str(error))
    notes = [*drop_unused_knobs(plain, model, request.overrides), *note_long(choices)]
    loaded = load_data(choices.data)
    trainer = Trainer(model, choices.optimizer, settings, loaded.to(settings.device, floating(settings)))
    with claim(request, choices) as folder:
        for note in [*notes, trainer.batches.note]:
            if note:
                folder.say(fold(f"note: {note}"))
        return _train(request, folder, choices, trainer, loaded.hashes())


def _train(request: Request, folder: RunFolder, choices: Choices, trainer: Trainer, hashes: dict[str, str]) -> Outcome:
    record = None
    settings = trainer.settings

    def fail(r: int, error: Diverged) -> None:
        raise error

    try:
        environ = environment(request.argv, settings.threads, settings.device, hashes)
        states = checkpoint.load_whole(folder.checkpoints, folder.config_hash) if folder.resumed else []
        state = states[0] if states else None
        record = open_record(request, folder, choices, environ, state)
        session = Session(trainer, {0: record}, fail)
        if state is None:
            calibrate(trainer.model, trainer.batch(0, 1)[0])
        else:
            session.restore([state])
            folder.say(f"resuming {folder.path} from step {trainer.step}")
        with torch.autograd.set_detect_anomaly(settings.detect_anomaly):
            (result,) = session.train().values()
        record.close(success=True)
        folder.write_status(DONE)
    except BaseException as error:
        return end_early(folder, record, error)
    folder.say(closing_table(result, folder.path))
    return Outcome(folder.path, DONE, result)


def record_missing(folder: Path, plain: dict[str, Any], reason: str) -> None:
    """Writes the status NOT_APPLICABLE into a folder.

    Raises FolderError if the folder holds another run.
    """
    try:
        claimed = RunFolder.claim(folder, config_hash(plain), True, plain["overwrite"], plain, NOT_HASHED)
    except RunOver as over:
        if over.status != NOT_APPLICABLE:
            raise
        return
    with claimed:
        write_yaml(claimed.config, plain)
        claimed.write_status(NOT_APPLICABLE, reason)
