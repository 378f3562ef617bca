"""The command line: Hydra's, with its errors and a sweep's end put into words."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.cli_errors import readable, refuse_repeated_keys
from experiments.cli_folders import remove_empty
from experiments.config import ConfigError
from experiments.console import shown, table
from experiments.data.dataset import DataError
from experiments.hyperparameters import group_keys
from experiments.naming import register_resolvers
from experiments.tracking.checkpoint import CheckpointError
from experiments.tracking.run_errors import FolderError, RunOver
from experiments.tracking.run_status import DONE, FAILED, NOT_APPLICABLE

VERSION_BASE = "1.3"
UserError = (ConfigError, DataError, FolderError, CheckpointError)


@dataclass(frozen=True)
class Job:
    """How one job ended."""

    name: str
    status: str
    reason: str = ""


@dataclass
class Jobs:
    """What became of the jobs of this command, and the error that kept a single one from starting."""

    ended: list[Job] = field(default_factory=list)
    refused: Exception | None = None
    since: float = field(default_factory=time.time)  # when the command began
    begun: bool = False  # until then whatever is raised is Hydra's, about the command


def main(conf: Path) -> NoReturn:
    """Runs the job or the sweep that the command line asks for, and exits: 0 if all is well.

    1: a run failed; 2: the command, configuration, data or folder is wrong, or the cell is empty; 130, 143: stopped by
    a signal.
    """
    register_resolvers()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # errors come to us instead of being printed as a trace
    jobs, typed = Jobs(), list(sys.argv)

    @hydra.main(version_base=VERSION_BASE, config_path=str(conf), config_name="config")
    def task(config: DictConfig) -> float | None:
        return _job(config, conf, typed, jobs)

    try:
        refuse_repeated_keys(sys.argv[1:])
        with _flags_first():
            task()
        if jobs.refused is not None:
            raise jobs.refused
    except (*UserError, HydraException, OmegaConfBaseException) as error:
        _exit(2, f"error: {readable(error, conf)}")
    except KeyboardInterrupt as stopped:
        signum = int(getattr(stopped, "signum", signal.SIGINT))
        _exit(128 + signum, "stopped; the same command goes on from here")
    except Exception as error:
        if jobs.begun:
            raise
        _exit(2, f"error: {readable(error, conf)}")
    sys.exit(_report(jobs.ended))


@contextmanager
def _flags_first() -> Iterator[None]:
    """Puts -m before all overrides: Hydra takes no override behind a flag that stands behind another one."""
    typed = sys.argv
    flags = [argument for argument in typed[1:] if argument in ("-m", "--multirun")]
    sys.argv = [typed[0], *flags, *(argument for argument in typed[1:] if argument not in flags)]
    try:
        yield
    finally:
        sys.argv = typed


def _job(config: DictConfig, conf: Path, typed: list[str], jobs: Jobs) -> float | None:
    """One job; the objective to minimise, 1 - best validation accuracy."""
    from experiments.run import run
    from experiments.summary import closing_line, closing_table

    jobs.begun = True
    sweeping = HydraConfig.get().mode == RunMode.MULTIRUN
    request = _request(config, conf, typed, sweeping)
    try:
        outcome = run(request)
    except UserError as error:
        remove_empty(request.folder, jobs.since)
        if not sweeping:
            jobs.refused = error  # Hydra would announce it in its own words first
            return None
        done = isinstance(error, RunOver) and error.status == DONE
        ended = (DONE, "done before") if done else (FAILED, str(error))
        jobs.ended.append(Job(shown(request.folder), *ended))
        return None
    except Exception as error:
        if not sweeping:
            raise
        traceback.print_exc()  # Hydra would leave out the jobs to come
        jobs.ended.append(Job(shown(request.folder), FAILED, f"{type(error).__name__}: {error}"))
        return None
    name = shown(outcome.folder)
    jobs.ended.append(Job(name, outcome.status, outcome.reason or ""))
    if outcome.result is None:
        return None
    print(f"{name}: {closing_line(outcome.result)}" if sweeping else closing_table(outcome.result, outcome.folder))
    return 1.0 - float(outcome.result["best"]["accuracy/val"])


def _request(config: DictConfig, conf: Path, typed: list[str], sweeping: bool) -> Any:
    from experiments.run import Request

    hydra_config: Any = HydraConfig.get()
    folder = Path(hydra_config.runtime.output_dir)
    chosen = any(override.startswith("hydra.run.dir=") for override in hydra_config.overrides.hydra)
    overrides: Any = OmegaConf.to_container(hydra_config.overrides.task, resolve=False)  # as they were typed
    files = {
        "config.yaml": config,
        "hydra.yaml": OmegaConf.create({"hydra": hydra_config}),
        "overrides.yaml": OmegaConf.create(overrides),
    }
    search = None if sweeping or chosen else folder.parent
    return Request(config, folder, search, overrides, typed, group_keys(conf), files)


def _report(jobs: list[Job]) -> int:
    """Counts a sweep's jobs, lists those that did not end well, and says with which code to exit."""
    if len(jobs) > 1:
        statuses = [job.status for job in jobs]
        print("\n" + ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses)))
    for job in jobs:
        if job.status != DONE:
            print(table([(job.status, job.name), ("", job.reason)]), file=sys.stderr)
    if len(jobs) == 1 and jobs[0].status == NOT_APPLICABLE:
        return 2
    return int(any(job.status == FAILED for job in jobs))


def _exit(code: int, message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(code)
