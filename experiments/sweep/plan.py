"""The jobs of a sweep as they stand before anything runs: folder, hash, and what is to be done about each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from experiments.config.choices import NOT_HASHED, STACKABLE, ConfigError, config_hash
from experiments.tracking.flat_config import differences
from experiments.tracking.run_earlier import refuse_other_config
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import FAILED, INTERRUPTED, NOT_APPLICABLE, RUNNING, is_alive, read_status
from experiments.training.identity import Identifier

NEW = "new"  # what a job without a run is; all others are the status that its folder has
REFUSED = "REFUSED"  # its configuration cannot run


@dataclasses.dataclass(frozen=True)
class Job:
    """One job: what it overrides, where it goes, what it is, and how far an earlier command came with it.

    `same_as` is the folder of an earlier job with the same hash, which is the run of both; `reason` says why a job that
    is refused or not applicable cannot run.
    """

    number: int
    overrides: list[str]
    folder: Path
    state: str = NEW
    config_hash: str | None = None
    group: str | None = None
    plain: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    same_as: Path | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()

    def runs(self) -> bool:
        """Whether this command has to run it."""
        if self.same_as is not None or self.state in (REFUSED, NOT_APPLICABLE):
            return False
        return self.begins_anew or self.state in (NEW, INTERRUPTED)

    @property
    def begins_anew(self) -> bool:
        """Whether a run that is in its folder makes room for it."""
        return bool(self.plain["overwrite"]) or (self.state == FAILED and self.plain["retry"] == "failed")


def plan(
    overrides: Iterable[Sequence[str]],
    compose: Callable[[Sequence[str]], DictConfig],
    leave_out: Callable[[DictConfig], bool],
    identify: Identifier,
) -> list[Job]:
    """All jobs; raises FolderError or ConfigError where two of them, or one and an earlier run, share a folder."""
    jobs: list[Job] = []
    for own in overrides:
        config = compose(own)
        if not leave_out(config):
            folder = Path(str(config.hydra.runtime.output_dir))
            jobs.append(identified(Job(len(jobs), list(own), folder), config, identify))
    _refuse_shared_folders(jobs)
    return [with_state(job) for job in _without_repeats(jobs)]


def identified(job: Job, config: DictConfig, identify: Identifier) -> Job:
    """The job with what its configuration says of it."""
    try:
        found = identify(config, job.overrides)
    except ConfigError as error:
        return dataclasses.replace(job, state=REFUSED, reason=str(error))
    return dataclasses.replace(
        job,
        state=NOT_APPLICABLE if found.missing else NEW,
        reason=found.missing or "",
        config_hash=found.config_hash,
        group=config_hash(found.plain, (*NOT_HASHED, *STACKABLE)),
        plain=found.plain,
        notes=tuple(found.notes),
    )


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
    """Jobs of one hash are one run, whatever they are called."""
    first: dict[str, Path] = {}
    marked = []
    for job in jobs:
        repeats = job.config_hash is not None and job.state == NEW and job.config_hash in first
        if job.config_hash is not None and not repeats:
            first[job.config_hash] = job.folder
        marked.append(dataclasses.replace(job, same_as=first[str(job.config_hash)]) if repeats else job)
    return marked


def with_state(job: Job) -> Job:
    """The job with the status of its folder; raises ConfigDiffers for another configuration's run there."""
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


def status_now(folder: Path, status: dict[str, Any]) -> str:
    """The status of a run as it is: RUNNING with nobody at it is INTERRUPTED."""
    cut_off = status["status"] == RUNNING and not is_alive(folder)
    return INTERRUPTED if cut_off else str(status["status"])


def last_line(status: dict[str, Any]) -> str:
    """What a run's error says in the end."""
    return str(status.get("error") or "").strip().rpartition("\n")[2].strip()
