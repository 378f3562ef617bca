"""What Hydra calls for each job, here or in another process; what it says of a sweep's job is in the job's folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from experiments.config.choices import QUESTION, ConfigError, choose
from experiments.config.folder_names import register_resolvers, typed_keys
from experiments.config.keys import group_keys
from experiments.config.values import without_effect
from experiments.data.dataset import DataError
from experiments.sweep.empty_folders import remove_empty
from experiments.terminal.console import shown, table
from experiments.tracking.checkpoint import CheckpointError
from experiments.tracking.run_errors import FolderError
from experiments.tracking.run_status import DONE, NOT_APPLICABLE
from experiments.tracking.strict_json import DamagedFile

OF_SWEEPS = ("on_error", "workers", "engine")  # what a single run does not read
UserError = (ConfigError, DataError, FolderError, CheckpointError, DamagedFile)

register_resolvers()  # in the processes of other launchers, which start by reading a Task


class JobFailed(Exception):
    """One job of a sweep failed or could not start; the message says why."""


class NotStarted(JobFailed):
    """Another job failed before this one began, and on_error=stop."""


@dataclass
class Task:
    """Hydra's task function; can be pickled.

    `name` is this command's own, for its folder in a sweep's root. `units` is the folder with the files of units, each
    for the job that is launched for all of it. The rest is this process's: the exit code, and the error that kept a
    single run from starting.
    """

    conf: Path
    typed: list[str]
    name: str
    units: Path | None = None
    code: int = 0
    refused: Exception | None = None
    begun: bool = False  # until then whatever is raised is Hydra's, about the command
    since: float = field(default_factory=time.time)

    def __call__(self, config: DictConfig) -> float | dict[Path, str] | None:
        """Runs a job; the objective to minimise, 1 - best validation accuracy, or of a unit its jobs' errors."""
        self.begun = True
        if QUESTION in config:
            self._ask(config)
            return None
        return self._job(config) if HydraConfig.get().mode == RunMode.MULTIRUN else self._single(config)

    def _ask(self, config: DictConfig) -> None:
        """A preset that asks the oracles instead of training; what else was set is checked, and has no effect."""
        from experiments.oracles.presets import ask

        if HydraConfig.get().mode == RunMode.MULTIRUN:
            raise JobFailed("a question is asked once: leave -m away")
        folder = Path(HydraConfig.get().runtime.output_dir)
        try:
            choose(OmegaConf.masked_copy(config, [str(key) for key in config if key != QUESTION]))
            _note_unread(lambda key: key not in ("experiment", QUESTION, "dry_run"))
            ask(config.question, folder, config.dry_run)
        except UserError as error:
            self.refused = error
        remove_empty(folder, self.since)

    def _single(self, config: DictConfig) -> float | None:
        from experiments.training.run import run

        request = self.request(config, quiet=False)
        _note_unread(lambda key: key in OF_SWEEPS)
        try:
            if config.dry_run:
                print(_preview(request))
                remove_empty(request.folder, self.since)
                return None
            outcome = run(request)
        except UserError as error:
            remove_empty(request.folder, self.since)
            self.refused = error  # Hydra would announce it in its own words first
            return None
        if outcome.status != DONE:
            print(table([(outcome.status, shown(outcome.folder)), ("", outcome.reason or "")]), file=sys.stderr)
            self.code = 2 if outcome.status == NOT_APPLICABLE else 1
        return objective(outcome.result)

    def _job(self, config: DictConfig) -> float | dict[Path, str] | None:
        """Raises JobFailed, which any process can send to another, or ConfigError for what no job can do."""
        from experiments.training.run import run

        refuse_dry_run(config)
        root = Path(HydraConfig.get().sweep.dir)
        self.refuse_if_stopped(root)
        unit = self._unit()
        if unit is not None:
            return self._together(unit[0], root if config.on_error == "stop" else None)
        try:
            request = self.request(config, quiet=True)
            _add_to_manifest(request, root)
            outcome = run(request)
        except UserError as error:
            reason = str(error)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        else:
            if outcome.status in (DONE, NOT_APPLICABLE):
                return objective(outcome.result)
            reason = outcome.reason or outcome.status
        if config.on_error == "stop":
            self.stop(root)
        raise JobFailed(reason)

    def _unit(self) -> tuple[list[Any], bool] | None:
        """The requests of the unit for which this job was launched, and whether to compile."""
        if self.units is None:
            return None
        from experiments.sweep.unit_files import read_unit, unit_file

        return read_unit(unit_file(self.units, str(HydraConfig.get().runtime.output_dir)))

    def _together(self, requests: list[Any], to_stop: Path | None) -> dict[Path, str]:
        from experiments.stacked.run import run_group

        errors = {}
        present = [request for request in requests if request is not None]
        for request, ending in zip(present, run_group(requests), strict=True):
            if isinstance(ending, Exception):
                errors[request.folder] = str(ending) or type(ending).__name__
            elif ending.status not in (DONE, NOT_APPLICABLE):
                errors[request.folder] = ending.reason or ending.status
        if errors and to_stop is not None:
            self.stop(to_stop)
        return errors

    def refuse_if_stopped(self, root: Path) -> None:
        """Raises NotStarted where a job of this command in that sweep's root has failed, and on_error=stop."""
        from experiments.sweep.command_folder import is_stopped

        if is_stopped(root, self.name):
            raise NotStarted("on_error=stop, and another job failed")

    def stop(self, root: Path) -> None:
        """Has this command start no further job."""
        from experiments.sweep.command_folder import stop

        stop(root, self.name)

    def request(self, config: DictConfig, quiet: bool) -> Any:
        """What a job that Hydra has configured asks for."""
        from experiments.training.run import Request

        hydra_config: Any = HydraConfig.get()
        folder = Path(hydra_config.runtime.output_dir)
        chosen = any(override.startswith("hydra.run.dir=") for override in hydra_config.overrides.hydra)
        overrides: Any = OmegaConf.to_container(hydra_config.overrides.task, resolve=False)  # as they were typed
        own: Any = OmegaConf.to_container(config, resolve=False, enum_to_str=True)
        hydra_part = own.pop("hydra", None) or OmegaConf.to_container(hydra_config, resolve=False, enum_to_str=True)
        files = {
            "config.yaml": own,
            "hydra.yaml": {"hydra": hydra_part},
            "overrides.yaml": overrides,
        }
        search = None if quiet or chosen else folder.parent
        return Request(config, folder, search, overrides, self.typed, quiet, group_keys(self.conf), files)


def _note_unread(is_unread: Callable[[str], bool]) -> None:
    """Says of what was typed that nothing reads it."""
    hydra_config: Any = HydraConfig.get()
    for note in without_effect(filter(is_unread, typed_keys(hydra_config.overrides.task))):
        print(f"note: {note}", flush=True)


def refuse_dry_run(config: DictConfig) -> None:
    """Raises ConfigError where a job was launched that was to be listed only: by a sweeper of others."""
    if config.dry_run:
        raise ConfigError("dry_run=true lists the jobs of a sweep with hydra/sweeper=listed, the default, only")


def _preview(request: Any) -> str:
    from experiments.sweep.plan import REFUSED, with_state
    from experiments.sweep.preview import preview_one

    job = _planned(request)
    if job.state == REFUSED:
        raise ConfigError(job.reason)
    return preview_one(with_state(job))


def _add_to_manifest(request: Any, root: Path) -> None:
    """For a sweep whose jobs nobody knows beforehand."""
    from experiments.sweep.manifest import known_beforehand, record

    if not known_beforehand(HydraConfig.get()):
        record(root.absolute(), [_planned(request)])


def _planned(request: Any) -> Any:
    from experiments.sweep.plan import Job, identified
    from experiments.training.identity import Identifier

    return identified(Job(0, list(request.overrides), request.folder), request.config, Identifier())


def objective(result: Any) -> float | None:
    """1 - best validation accuracy, None for a run without a result."""
    return None if result is None else 1.0 - float(result["best"]["accuracy/val"])
