"""A sweep from its command to its report: plan, manifest, launch, what became of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig, OmegaConf

from experiments.command.task import NotStarted
from experiments.config.folder_names import typed_keys
from experiments.config.values import without_effect
from experiments.sweep.capacity import fit_workers, launcher_name
from experiments.sweep.command_folder import at_work
from experiments.sweep.compose import Composer
from experiments.sweep.empty_folders import remove_empty_below
from experiments.sweep.listing import left_out, plain_list
from experiments.sweep.manifest import record
from experiments.sweep.outcomes import outcomes, print_report
from experiments.sweep.plan import Job, plan
from experiments.sweep.preview import preview
from experiments.sweep.units import first_of_units, in_units
from experiments.sweep.view import watching
from experiments.terminal.console import shown
from experiments.tracking.run_status import DONE, INTERRUPTED, NOT_APPLICABLE
from experiments.training.run import record_missing


def conduct(sweeper: Any, arguments: list[str]) -> list[JobReturn]:
    """Runs what a sweep still lacks, or with `dry_run` only says what that is; the task is told the exit code."""
    config = sweeper.config
    root = Path(str(config.hydra.sweep.dir)).absolute()
    jobs, configs = _plan(sweeper, arguments)
    due = [job for job in jobs if job.runs()]
    if launcher_name(config) == "stacked" or in_units(config):
        sweeper.composer.ready = {key: configs[key] for key in (tuple(job.overrides) for job in due)}
    threads = max((job.plain["threads"] for job in due), default=1)
    at_a_time = fit_workers(config, threads, config.workers)
    for note in without_effect(_unread(config)):
        print(f"note: {note}")
    if config.dry_run:
        print(preview(root, jobs, _engine(sweeper, due), at_a_time))
        return []
    record(root, jobs)
    _open(root, jobs, due)
    returns: list[JobReturn] = []
    errors: dict[Path, str] = {}
    stopped = True
    try:
        with at_work(root, sweeper.task_function.name), watching(due, root):
            in_stacks = bool(due) and in_units(config)
            launched = first_of_units(sweeper, root, due, at_a_time) if in_stacks else due
            for batch in _batches(launched, launcher_name(config), at_a_time):
                returns += _launch(sweeper, batch, errors)
        stopped = False
    finally:
        remove_empty_below(root, [job.folder for job in due])
        sweeper.task_function.code = print_report(outcomes(jobs, errors), stopped)
    return returns


def _unread(config: DictConfig) -> set[str]:
    """What Hydra's own launcher, which runs one job after the other, does not read."""
    ours = {"workers", "engine"} if config.engine in ("stacked", "compiled") else {"workers"}
    return typed_keys(config.hydra.overrides.task) & ours if launcher_name(config) == "basic" else set()


def _engine(sweeper: Any, due: Sequence[Job]) -> str:
    launcher = launcher_name(sweeper.config)
    if launcher != "stacked" and not in_units(sweeper.config):
        return f"single runs, hydra/launcher={launcher}"
    from experiments.sweep.launch import described

    return described(sweeper.composer, [job.overrides for job in due])


def _plan(sweeper: Any, arguments: list[str]) -> tuple[list[Job], dict[tuple[str, ...], DictConfig]]:
    """The jobs, and what was composed for them, by their overrides."""
    filters = plain_list(sweeper.leave_out, "leave_out")
    composer: Composer = sweeper.composer
    numbers = itertools.count()
    configs: dict[tuple[str, ...], DictConfig] = {}

    def compose(overrides: Sequence[str]) -> DictConfig:
        configs[tuple(overrides)] = config = composer.numbered(overrides, next(numbers))
        return config

    jobs = plan(sweeper.listed(arguments), compose, lambda config: left_out(config, filters), composer.identify)
    return jobs, configs


def _open(root: Path, jobs: Sequence[Job], due: Sequence[Job]) -> None:
    """Says what is there and what is to come, and records the cells that do not exist."""
    for job in jobs:
        if job.state == NOT_APPLICABLE:
            record_missing(job.folder, job.plain, job.reason)
    cut_off, before = (sum(job.state == state for job in jobs) for state in (INTERRUPTED, DONE))
    counts = {"of them cut off": cut_off, "done before": before}
    said = ", ".join([f"{len(due)} to run", *(f"{count} {what}" for what, count in counts.items() if count)])
    print(f"{len(jobs)} jobs in {shown(root)}: {said}", flush=True)
    notes = [note for job in due for note in job.notes]
    for note in dict.fromkeys(notes):
        print(f"note: {note} (jobs: {notes.count(note)})", flush=True)


def _batches(due: Sequence[Job], launcher: str, at_a_time: int) -> Iterator[Sequence[Job]]:
    """All at once, but for a launcher that starts whatever it gets."""
    size = at_a_time if launcher == "submitit_local" else max(len(due), 1)
    for start in range(0, len(due), size):
        yield due[start : start + size]


def _launch(sweeper: Any, jobs: Sequence[Job], errors: dict[Path, str]) -> list[JobReturn]:
    """Hands jobs to the launcher; what goes wrong there, or in a job before it has its folder, is kept in `errors`."""
    template = str(OmegaConf.to_container(sweeper.config.hydra.sweep, resolve=False))
    numbered = "job.num" in template or "job.id" in template
    root = Path(str(sweeper.config.hydra.sweep.dir)).absolute()
    overrides = [[*job.overrides, *(_folder_override(root, job) if numbered else [])] for job in jobs]
    try:
        returns = list(sweeper.new_launcher().launch(overrides, initial_job_idx=jobs[0].number))
    except Exception as error:
        errors.update({job.folder: f"{launcher_name(sweeper.config)}: {type(error).__name__}: {error}" for job in jobs})
        return []
    for job, done in zip(jobs, returns, strict=True):
        if done.status == JobStatus.FAILED and not isinstance(done._return_value, NotStarted):
            errors[job.folder] = str(done._return_value)
        elif isinstance(done._return_value, dict):  # of a unit: the errors of its jobs
            errors.update(done._return_value)
    return returns


def _folder_override(root: Path, job: Job) -> list[str]:
    """A job that is launched alone has another number than in its sweep, and yet the same folder."""
    return [f"hydra.sweep.subdir='{job.folder.relative_to(root)}'"]
