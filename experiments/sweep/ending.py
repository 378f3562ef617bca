"""How a job of a sweep ends: with an objective for Hydra, or with an error."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import redirect_stderr
from io import StringIO
from typing import Any

from hydra.core.utils import JobReturn
from omegaconf import DictConfig

from experiments.config.values import ConfigError
from experiments.tracking.run_errors import FolderInUse, RunOver
from experiments.tracking.run_status import DONE, NOT_APPLICABLE
from experiments.training.run import Outcome


class JobFailed(Exception):
    """One job of a sweep failed or could not start; the message says why."""


class NotStarted(JobFailed):
    """Another job failed before this one began, and on_error=stop."""


class Elsewhere(JobFailed):
    """Another process runs this job, or has finished it. This is no failure."""


def objective(result: Mapping[str, Any] | None) -> float | None:
    """1 - best validation accuracy; None if the run has no result."""
    return None if result is None else 1.0 - float(result["best"]["accuracy/val"])


def value_of(ending: Outcome | Exception) -> float | None:
    """The objective of a run; raises JobFailed unless it is done or not applicable."""
    if isinstance(ending, FolderInUse | RunOver):
        raise Elsewhere(str(ending))
    if isinstance(ending, Exception):
        raise JobFailed(str(ending) or type(ending).__name__)
    if ending.status not in (DONE, NOT_APPLICABLE):
        raise JobFailed(ending.reason or ending.status)
    return objective(ending.result)


def result_of(done: JobReturn) -> Any:
    """What a job returned or raised, without the overrides that Hydra prints for a failed job."""
    try:
        with redirect_stderr(StringIO()):
            return done.return_value
    except Exception as error:
        return error


def refuse_dry_run(config: DictConfig) -> None:
    """Raises ConfigError if a job was launched with dry_run=true: only the sweeper `listed` supports that key."""
    if config.dry_run:
        raise ConfigError("dry_run=true needs hydra/sweeper=listed, the default")
