"""Plans the jobs of a sweep before anything runs: the folder, hash and state of each."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from experiments.config.choices import STACKABLE, Choices, ConfigError
from experiments.config.config_hash import NOT_HASHED, config_hash
from experiments.sweep.compose import Composer
from experiments.tracking.flat_config import differences
from experiments.tracking.run_earlier import refuse_other_config
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import (
    FAILED,
    INTERRUPTED,
    NOT_APPLICABLE,
    RUNNING,
    is_alive,
    last_line,
    read_status,
)
from experiments.training.identity import Identifier

NEW = "new"  # no run is in the job's folder; the other states are the statuses of runs
PATIENCE = 5.0  # seconds in which the processes of a killed command notice that and save
REFUSED = "REFUSED"  # its configuration cannot run


@dataclasses.dataclass(frozen=True)
class Job:
    """One job: its overrides, folder and configuration, and the state in which an earlier command left it.

    `same_as` is the folder of an earlier job with the same hash; both jobs are one run. `reason` says why a job that is
    refused or not applicable cannot run.
    """

    number: int
    overrides: list[str]
    folder: Path
    config: DictConfig = dataclasses.field(repr=False, compare=False)
    state: str = NEW
    choices: Choices | None = dataclasses.field(default=None, repr=False, compare=False)
    config_hash: str | None = None
    group: str | None = None
    same_as: Path | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()

    @property
    def plain(self) -> dict[str, Any]:
        """The resolved configuration; empty for a refused job."""
        return self.choices.plain if self.choices is not None else {}

    def runs(self) -> bool:
        """Whether this command runs the job."""
        if self.same_as is not None or self.state in (REFUSED, NOT_APPLICABLE):
            return False
        return self.begins_anew or self.state in (NEW, INTERRUPTED)

    @property
    def begins_anew(self) -> bool:
        """Whether the job replaces the run in its folder."""
        return bool(self.plain["overwrite"]) or (self.state == FAILED and self.plain["retry"] == "failed")


def make_job(
    number: int, overrides: Sequence[str], folder: Path, config: DictConfig, identify: Identifier | None = None
) -> Job:
    """Makes the job of a composed configuration, without reading its folder."""
    job = Job(number, list(overrides), folder, config)
    try:
        found = (identify or Identifier())(config, job.overrides)
    except ConfigError as error:
        return dataclasses.replace(job, state=REFUSED, reason=str(error))
    return dataclasses.replace(
        job,
        state=NOT_APPLICABLE if found.missing else NEW,
        choices=found.choices,
        config_hash=found.config_hash,
        group=config_hash(found.choices.plain, (*NOT_HASHED, *STACKABLE)),
        reason=found.missing or "",
        notes=tuple(found.notes),
    )


def compose_job(composer: Composer, overrides: Sequence[str], number: int, identify: Identifier) -> Job:
    """Composes the job of these overrides."""
    config = composer.with_number(overrides, number)
    return make_job(number, overrides, Path(str(config.hydra.runtime.output_dir)), config, identify)


def plan(jobs: Iterable[Job]) -> list[Job]:
    """The jobs with the states of their folders; repeated jobs are marked.

    Raises ConfigError if two different jobs share a folder.
    Raises FolderError if a job and another configuration's run share a folder.
    """
    listed = list(jobs)
    _refuse_shared_folders(listed)
    return [with_state(job) for job in _without_repeats(listed)]


def _refuse_shared_folders(jobs: Sequence[Job]) -> None:
    owners: dict[Path, Job] = {}
    for job in jobs:
        other = owners.setdefault(job.folder, job)
        if other.config_hash != job.config_hash:
            changes = "; ".join(differences(other.plain, job.plain, NOT_HASHED))
            raise ConfigError(
                f"two jobs would share the folder {job.folder} ({changes}); hydra.sweep.subdir must name what differs"
            )


def _without_repeats(jobs: Sequence[Job]) -> list[Job]:
    """Marks each job that has the hash of an earlier job: both are one run."""
    first: dict[str, Path] = {}
    marked = []
    for job in jobs:
        repeats = job.config_hash is not None and job.state == NEW and job.config_hash in first
        if job.config_hash is not None and not repeats:
            first[job.config_hash] = job.folder
        marked.append(dataclasses.replace(job, same_as=first[str(job.config_hash)]) if repeats else job)
    return marked


def with_state(job: Job) -> Job:
    """The job with the status of the run in its folder.

    Raises ConfigDiffers if the run has another configuration.
    """
    if job.state == REFUSED or job.same_as is not None:
        return job
    status = read_status(job.folder)
    if status is None:
        return job
    if not job.plain["overwrite"]:
        refuse_other_config(RunPaths(job.folder), status, str(job.config_hash), job.plain, NOT_HASHED)
    elif status["config_hash"] != job.config_hash:
        return job
    return dataclasses.replace(job, state=status_now(job.folder, status), reason=job.reason or last_line(status))


def settle(jobs: Sequence[Job]) -> list[Job]:
    """Reads running jobs' states again, after up to PATIENCE seconds: processes of a dead command may be saving."""
    running = [job.folder for job in jobs if job.state == RUNNING]
    until = time.monotonic() + PATIENCE
    if running:
        print(f"{len(running)} jobs run in other processes; waiting up to {PATIENCE:.0f} s for them to end", flush=True)
    while any(map(is_alive, running)) and time.monotonic() < until:
        time.sleep(0.1)
    return [with_state(job) if job.state == RUNNING else job for job in jobs]


def status_now(folder: Path, status: dict[str, Any]) -> str:
    """A run's status; RUNNING without a live process is INTERRUPTED."""
    interrupted = status["status"] == RUNNING and not is_alive(folder)
    return INTERRUPTED if interrupted else str(status["status"])
