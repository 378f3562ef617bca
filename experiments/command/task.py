"""Hydra's task function: it runs each job, in this process or another."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from experiments.config.choices import QUESTION, ConfigError, choose, refuse_removed
from experiments.config.folder_names import register_resolvers, typed_keys
from experiments.config.own_options import refuse_hidden_options
from experiments.config.values import without_effect
from experiments.oracles.presets import ask
from experiments.stacked.run import run_group
from experiments.sweep.capacity import FOLLOWING, OF_OTHERS
from experiments.sweep.command_folder import follow_command, refuse_if_stopped, stop, worker_of
from experiments.sweep.empty_folders import remove_empty
from experiments.sweep.ending import Elsewhere, JobFailed, objective, refuse_dry_run, value_of
from experiments.sweep.manifest import record
from experiments.sweep.outcomes import JobReport
from experiments.sweep.plan import REFUSED, Job, make_job, with_state
from experiments.sweep.preview import preview_one
from experiments.sweep.requests import make_request
from experiments.sweep.unit_files import read_unit, unit_file
from experiments.sweep.worker import hold_process
from experiments.terminal.console import fold, short_path, table
from experiments.tracking.outputs import OutputFailed
from experiments.tracking.run_status import DONE, NOT_APPLICABLE
from experiments.training.run import Outcome, Request, run
from experiments.training.user_errors import USER_ERRORS

OF_SWEEPS = ("on_error", "workers", "engine")  # keys that a single run does not read

register_resolvers()  # also in the processes of other launchers, which begin by unpickling a Task


@dataclass
class Task:
    """Hydra's task function; can be pickled.

    `name` is unique to the command, and names its folder in a sweep's root; `process` is the command's. `units` is the
    folder of unit files. The other fields belong to this process: the exit code, and the error that kept a single run
    from starting.
    """

    conf: Path
    typed: list[str]
    name: str
    units: Path | None = None
    process: int = field(default_factory=os.getpid)
    code: int = 0
    refused: Exception | None = None
    begun: bool = False  # until then errors are about the command line
    reports: tuple[Path, list[JobReport]] | None = None  # a sweep's root, and how its jobs ended
    since: float = field(default_factory=time.time)

    def __call__(self, config: DictConfig) -> float | dict[Path, Exception] | None:
        """Runs a job; gives its objective to minimise, or the errors of a unit's jobs."""
        self.begun = True
        if QUESTION in config:
            self._ask(config)
            return None
        return self._job(config) if HydraConfig.get().mode == RunMode.MULTIRUN else self._single(config)

    def _ask(self, config: DictConfig) -> None:
        """Answers a preset's question with the oracles; other keys are checked, and have no effect."""
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            raise JobFailed("a question is asked once: leave -m away")
        folder = Path(HydraConfig.get().runtime.output_dir)
        try:
            choose(OmegaConf.masked_copy(config, [str(key) for key in config if key != QUESTION]))
            _note_unread(lambda key: key not in ("experiment", QUESTION, "dry_run"))
            ask(config.question, folder, config.dry_run)
        except USER_ERRORS as error:
            self.refused = error
        except OutputFailed as error:
            print(f"error: {error}", file=sys.stderr)
            self.code = 1
        remove_empty(folder, self.since)

    def _single(self, config: DictConfig) -> float | None:
        request = make_request(self, config, quiet=False)
        try:
            refuse_removed(config)
            refuse_hidden_options(HydraConfig.instance().cfg)
            _note_unread(lambda key: key in OF_SWEEPS)
            if config.dry_run:
                print(_preview(request))
                return None
            outcome = run(request)
            self._finish(outcome)
        except USER_ERRORS as error:
            self.refused = error  # raised here, Hydra would print a message of its own first
            return None
        finally:
            remove_empty(request.folder, self.since)  # also if the run resumed in its earlier folder
        return objective(outcome.result)

    def _finish(self, outcome: Outcome) -> None:
        """Prints why a single run is not done, and sets the exit code."""
        if outcome.status != DONE:
            print(table([(outcome.status, short_path(outcome.folder)), ("", outcome.reason or "")]), file=sys.stderr)
            self.code = 2 if outcome.status == NOT_APPLICABLE else 1

    def _job(self, config: DictConfig) -> float | dict[Path, Exception] | None:
        """Raises JobFailed, which any process can send to another, or ConfigError for what no job can do."""
        refuse_dry_run(config)
        root = Path(HydraConfig.get().sweep.dir).absolute()
        try:
            if not self._is_worker_of(FOLLOWING):
                refuse_if_stopped(root, self.name)
                return self._work(config, root)
            follow_command(root, self.name)
            with hold_process(), worker_of(root, self.name):
                return self._work(config, root)
        except KeyboardInterrupt as stopped:
            if not self._is_worker_of(OF_OTHERS):
                raise
            raise JobFailed(str(stopped) or "stopped by SIGINT") from None  # launchers expect no KeyboardInterrupt

    def _is_worker_of(self, launchers: Sequence[str]) -> bool:
        """Whether one of these launchers has started this process for the command."""
        options = HydraConfig.get().runtime.choices
        started = options["hydra/launcher"] in launchers and options["hydra/sweeper"] == "listed"
        return started and os.getpid() != self.process

    def _work(self, config: DictConfig, root: Path) -> float | dict[Path, Exception] | None:
        """Runs the job, or the unit that it stands for."""
        unit = None if self.units is None else read_unit(unit_file(self.units, HydraConfig.get().runtime.output_dir))
        if unit is not None:
            errors = _train_unit(unit)
            if config.on_error == "stop" and not all(isinstance(error, Elsewhere) for error in errors.values()):
                stop(root, self.name)
            return errors
        try:
            return value_of(self._alone(config, root))
        except Elsewhere:
            raise
        except JobFailed:
            if config.on_error == "stop":
                stop(root, self.name)
            raise

    def _alone(self, config: DictConfig, root: Path) -> Outcome | Exception:
        try:
            request = make_request(self, config, quiet=True)
            if HydraConfig.get().runtime.choices["hydra/sweeper"] != "listed":  # ours records all jobs beforehand
                record(root, [_plan_job(request)], _own_overrides(self.typed))
            return run(request)
        except USER_ERRORS as error:
            return error
        except Exception as error:
            return JobFailed(f"{type(error).__name__}: {error}")


def _train_unit(requests: Sequence[Request | None]) -> dict[Path, Exception]:
    """Trains a stack; the errors of its jobs, by folder."""
    errors: dict[Path, Exception] = {}
    present = [request for request in requests if request is not None]
    for request, ending in zip(present, run_group(requests), strict=True):
        try:
            value_of(ending)
        except JobFailed as error:
            errors[request.folder] = error
    return errors


def _note_unread(is_unread: Callable[[str], bool]) -> None:
    """Prints a note for each typed key that has no effect."""
    hydra_config: Any = HydraConfig.get()
    for note in without_effect(filter(is_unread, typed_keys(hydra_config.overrides.task))):
        print(fold(f"note: {note}"), flush=True)


def _preview(request: Request) -> str:
    job = _plan_job(request)
    if job.state == REFUSED:
        raise ConfigError(job.reason)
    return preview_one(with_state(job))


def _own_overrides(arguments: Sequence[str]) -> list[str]:
    """Those of the command line that are not Hydra's own."""
    return [text for text in arguments if "=" in text and not text.lstrip("+~").startswith(("hydra.", "hydra/", "-"))]


def _plan_job(request: Request) -> Job:
    return make_job(0, request.overrides, request.folder, request.config)
