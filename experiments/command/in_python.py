"""Training and sweeps from Python: what the command does, with its checks, files and messages, as two functions."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from experiments.command.cli import execute
from experiments.command.errors import readable
from experiments.command.given_objects import GivenObjects
from experiments.command.python_values import refuse_flags, run_overrides, sweep_overrides
from experiments.command.run_results import Run, RunFailed, SweepRuns
from experiments.command.task import Task
from experiments.conf_folder import CONF
from experiments.config.folder_names import override_key
from experiments.config.keys import options as option_names
from experiments.config.settings import GROUPS
from experiments.config.values import ConfigError, suggestion
from experiments.sweep.empty_folders import remove_empty
from experiments.sweep.ending import JobFailed
from experiments.tracking.run_status import DONE, NOT_APPLICABLE
from experiments.training.interruption import interrupt_behind
from experiments.training.run import Outcome
from experiments.training.user_errors import USER_ERRORS

# Otherwise Hydra closes the handlers of the calling program's logging, and sets up its own.
KEEP_LOGGING = "hydra.job_logging.root=null"
ONE_RUN = "hydra.mode=RUN"  # so that a preset with `mode: MULTIRUN` reaches `_PythonTask`, which refuses it
SWEEPER = "hydra/sweeper=listed"  # no other sweeper reports how its jobs ended


def train(
    *overrides: str,
    folder: str | Path | None = None,
    config_dir: str | Path | None = None,
    quiet: bool = False,
    **keys: Any,
) -> Run:
    """Trains one model, as `python train.py OVERRIDES` does: `train("strategy=ste", max_steps=200)`.

    `overrides` are typed as on the command line. `keys` are the same keys with Python values; dotted ones as
    `**{"optimizer.lr": 0.1}` or `optimizer={"lr": 0.1}`. `folder` is the run folder, `config_dir` a folder of your own
    options; with `quiet` only failures are printed. Ctrl-C saves the run and raises KeyboardInterrupt; the same call
    resumes the run.

    `model` may be an nn.Module with hard layers. A copy of it is trained, and starts from the weights that it has. Its
    hard layers get the strategy; a component is refused. The seed draws the batches and the noise only. `data` may be
    three parts, `(train, val, test)`: pairs of tensors, or Datasets of torch. The run folder keeps digests of these
    objects. To resume or load the run, give them again.

    Raises ConfigError, with the text that the command prints, for a wrong key or value, for a pair that is not
    applicable, and for a preset that is a sweep.
    Raises FolderError, DataError or CheckpointError for a folder, data or a checkpoint that cannot be used.
    Raises RunFailed if the run began and has no result, for instance because it diverged.
    """
    refuse_flags(overrides)
    given = GivenObjects.of(overrides, keys)
    place = {} if folder is None else {"hydra.run.dir": os.fspath(folder)}
    typed = run_overrides({**given.keys, **given.override_keys, **place})
    with given.offer():
        task = call_command("train", [*_options(config_dir), *overrides, *typed], ONE_RUN, quiet)
    if task.outcome is None:
        raise ConfigError("dry_run=true trains nothing, so there is no run to return")
    if task.outcome.status == NOT_APPLICABLE:
        raise ConfigError(str(task.outcome.reason))
    run = Run(task.outcome.folder, given.model)
    if task.outcome.status != DONE:
        raise RunFailed(run)
    return run


def sweep(
    *overrides: str,
    folder: str | Path | None = None,
    config_dir: str | Path | None = None,
    quiet: bool = False,
    **keys: Any,
) -> SweepRuns:
    """Trains the product of all values, as `python train.py -m OVERRIDES` does: `sweep(strategy=["ste", "smooth"])`.

    A list, tuple, range or array is one value for each job; the other arguments are those of `train`. `folder` holds
    the run folders. Jobs that are done are not run again. A job that fails does not stop the others, and is in
    `failed` of what is returned. With `dry_run=True` the jobs are only printed, and `failed` also has the jobs
    that would run.
    Raises ConfigError for another `hydra/sweeper`; all else as `train`, except RunFailed.
    """
    refuse_flags(overrides)
    given = GivenObjects.of(overrides, keys)
    place = {} if folder is None else {"hydra.sweep.dir": os.fspath(folder)}
    typed = sweep_overrides({**given.keys, **given.override_keys, **place})
    if "hydra/sweeper" in map(override_key, [*overrides, *typed]):
        raise ConfigError(f"hydra/sweeper cannot be chosen here: hardgrad.sweep always uses {SWEEPER}")
    with given.offer():
        task = call_command("sweep", ["-m", *_options(config_dir), *overrides, *typed], SWEEPER, quiet)
    assert task.reports is not None
    return SweepRuns(*task.reports, given.model)


def options(group: str) -> list[str]:
    """The names of a group's shipped options: `options("strategy")`; raises ConfigError for an unknown group."""
    known = (*GROUPS, "experiment", "debug")
    if group not in known:
        raise ConfigError(f"there is no group {group}{suggestion(group, known)}")
    return option_names(CONF, group)


@dataclass
class _PythonTask(Task):
    """Keeps how a single run ended, for the caller."""

    outcome: Outcome | None = None

    def _ask(self, config: DictConfig) -> None:
        self._refuse("this preset asks a question and trains nothing; ask it with python train.py")

    def _single(self, config: DictConfig) -> float | None:
        sweeper = HydraConfig.get().sweeper
        if sweeper.get("params") or sweeper.get("points"):
            self._refuse("this preset is a sweep; train it with hardgrad.sweep")
            return None
        return super()._single(config)

    def _refuse(self, reason: str) -> None:
        remove_empty(Path(HydraConfig.get().runtime.output_dir), self.since)
        self.refused = ConfigError(reason)

    def _finish(self, outcome: Outcome) -> None:
        self.outcome = outcome


def _options(config_dir: str | Path | None) -> list[str]:
    return [] if config_dir is None else ["--config-dir", os.fspath(config_dir)]


def call_command(
    name: str, arguments: Sequence[str], forced: str, quiet: bool, recorded: Sequence[str] | None = None
) -> _PythonTask:
    """Executes the command's arguments and the override `forced` in this process, and raises its errors.

    Runs record `name` and the arguments as their command, or `recorded` instead of the arguments.
    """
    around = sys.exc_info()[1]  # of a caller that handles an interrupt, which is no interrupt of this call
    task = _PythonTask(CONF, [f"hardgrad.{name}", *(arguments if recorded is None else recorded)], uuid.uuid4().hex)
    try:
        with _hydra_as_before(), contextlib.redirect_stdout(io.StringIO()) if quiet else contextlib.nullcontext():
            execute(task, [*arguments, KEEP_LOGGING, forced])
    except USER_ERRORS:
        raise
    except Exception as error:
        interrupt = interrupt_behind(error)
        if interrupt is not None and (around is None or interrupt is not interrupt_behind(around)):
            raise interrupt from None
        _translate(error, task.begun)
    return task


def _translate(error: Exception, begun: bool) -> NoReturn:
    """Raises Hydra's errors, and any from before a run began, as ConfigError with the command's text."""
    if begun and not isinstance(error, HydraException | OmegaConfBaseException | JobFailed):
        raise error
    raise ConfigError(readable(error, CONF)) from None


@contextlib.contextmanager
def _hydra_as_before() -> Iterator[None]:
    """Gives the block a Hydra of its own, and the caller's program its own Hydra back."""
    application, configuration = GlobalHydra.instance(), HydraConfig.instance()
    before, configured, full = application.hydra, configuration.cfg, os.environ.get("HYDRA_FULL_ERROR")
    application.clear()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors are raised instead of being printed as a trace
    try:
        yield
    finally:
        application.hydra, configuration.cfg = before, configured
        os.environ.pop("HYDRA_FULL_ERROR", None)
        if full is not None:
            os.environ["HYDRA_FULL_ERROR"] = full
