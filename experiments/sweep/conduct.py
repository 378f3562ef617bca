"""Runs a sweep: plan, manifest, launch, report."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig, OmegaConf, open_dict

from experiments.config.choices import refuse_removed
from experiments.config.folder_names import override_key, typed_keys, typed_overrides
from experiments.config.own_options import refuse_hidden_options
from experiments.config.values import ConfigError, without_effect
from experiments.sweep.board import write_board
from experiments.sweep.capacity import FOLLOWING, fit_workers, launcher_name, start_helpers
from experiments.sweep.closing import closing_lines
from experiments.sweep.command_folder import at_work
from experiments.sweep.compose import Composer
from experiments.sweep.empty_folders import remove_empty_below
from experiments.sweep.ending import JobFailed, NotStarted, result_of
from experiments.sweep.launch import preview_launch
from experiments.sweep.listing import is_left_out, job_overrides, plain_list, refuse_settings_of_sweep
from experiments.sweep.manifest import others_in, record
from experiments.sweep.outcomes import outcomes, print_report
from experiments.sweep.plan import REFUSED, Job, make_job, plan, settle
from experiments.sweep.preview import preview
from experiments.sweep.stopping import save_before_stopping
from experiments.sweep.units import launches_units, write_units
from experiments.sweep.view import show_progress
from experiments.terminal.console import fold, short_path
from experiments.tracking.run_status import DONE, INTERRUPTED, NOT_APPLICABLE
from experiments.training.identity import Identifier
from experiments.training.run import record_missing

OF_SWEEP = (
    "hydra.launcher",
    "hydra.sweeper",
    "workers",
    "on_error",
    "dry_run",
)  # keys that apply to the whole sweep; no job may set them


def conduct(sweeper: Any, arguments: Sequence[str]) -> list[JobReturn]:
    """Runs the missing jobs of a sweep, or with `dry_run` only lists them; sets the task's exit code."""
    config = sweeper.config
    refuse_removed(config)
    refuse_hidden_options(config)
    root = Path(str(config.hydra.sweep.dir)).absolute()
    jobs = plan(_listed_jobs(sweeper, arguments))
    _refuse_without_jobs(jobs)
    jobs = jobs if config.dry_run else settle(jobs)
    due = [job for job in jobs if job.runs()]
    threads = max((job.plain["threads"] for job in due), default=1)
    at_a_time = fit_workers(config, threads, config.workers)
    for note in without_effect(_unread(config)):
        print(fold(f"note: {note}"))
    if config.dry_run:
        print(preview(root, jobs, _engine(config, root, due), at_a_time))
        sweeper.task_function.reports = root, outcomes(jobs, {})
        return []
    record(root, jobs, typed_overrides(config.hydra.overrides.task))
    if due:
        write_board(root, jobs)
    _open(root, jobs, due)
    returns: list[JobReturn] = []
    errors: dict[Path, Exception] = {}
    stopped = True
    try:
        with at_work(root, sweeper.task_function.name), show_progress(due, jobs), _other_processes(sweeper, root, due):
            in_units = bool(due) and launches_units(config)
            launched = write_units(sweeper.task_function, root, due, at_a_time) if in_units else due
            for batch in _batches(launched, launcher_name(config), at_a_time):
                returns += _launch(sweeper, root, batch, errors)
        stopped = False
    finally:
        remove_empty_below(root, [job.folder for job in due])
        ended = outcomes(jobs, errors)
        sweeper.task_function.reports = root, ended
        sweeper.task_function.code = print_report(ended, stopped, closing_lines(root, ended))
    return returns


def _refuse_without_jobs(jobs: Sequence[Job]) -> None:
    """Raises ConfigError if there is no job, or all are refused."""
    if not jobs:
        raise ConfigError("hydra.sweeper.leave_out leaves no job")
    if all(job.state == REFUSED for job in jobs):
        raise ConfigError(
            f"{jobs[0].reason}" if len(jobs) == 1 else f"none of {len(jobs)} jobs can run: {jobs[0].reason}"
        )


@contextmanager
def _other_processes(sweeper: Any, root: Path, due: Sequence[Job]) -> Iterator[None]:
    """Makes the processes of a launcher in FOLLOWING save before a signal ends the command."""
    if not due or launcher_name(sweeper.config) not in FOLLOWING:
        yield
        return
    start_helpers(sweeper.config)
    with save_before_stopping(root, sweeper.task_function.name):
        yield


def _listed_jobs(sweeper: Any, arguments: Sequence[str]) -> Iterator[Job]:
    filters = plain_list(sweeper.leave_out, "leave_out")
    master, identify = _without_points(sweeper.config), Identifier()
    composer = Composer(sweeper.hydra_context.config_loader, master)
    acting = OF_SWEEP if launcher_name(sweeper.config) in ("basic", "stacked") else (*OF_SWEEP, "engine")
    kept = 0
    for number, own in enumerate(job_overrides(arguments, sweeper.params, plain_list(sweeper.points, "points"))):
        config = composer.with_number(own, number)
        refuse_settings_of_sweep(master, config, own, acting)
        if not is_left_out(config, filters):
            yield make_job(kept, own, Path(str(config.hydra.runtime.output_dir)), config, identify)
            kept += 1


def _without_points(config: DictConfig) -> DictConfig:
    """The sweep's configuration without typed points, which are long and would be copied for every job."""
    typed, key = typed_overrides(config.hydra.overrides.hydra), "hydra.sweeper.points"
    if key not in map(override_key, typed):
        return config
    master = copy.deepcopy(config)
    with open_dict(master.hydra):
        master.hydra.sweeper.points = []
        master.hydra.overrides.hydra = [one if override_key(one) != key else f"{key}=[]" for one in typed]
    return master


def _unread(config: DictConfig) -> set[str]:
    """Typed keys without effect under Hydra's own launcher, which runs one job after another."""
    ours = {"workers", "engine"} if config.engine == "stacked" else {"workers"}
    return typed_keys(config.hydra.overrides.task) & ours if launcher_name(config) == "basic" else set()


def _engine(config: DictConfig, root: Path, due: Sequence[Job]) -> str:
    if launcher_name(config) != "stacked" and not launches_units(config):
        return f"single runs, hydra/launcher={launcher_name(config)}"
    return preview_launch(config, root, due)


def _open(root: Path, jobs: Sequence[Job], due: Sequence[Job]) -> None:
    """Prints the number of jobs and the notes about them, and records the pairs that are not applicable."""
    for job in jobs:
        if job.state == NOT_APPLICABLE:
            record_missing(job.folder, job.plain, job.reason)
    interrupted, before = (sum(job.state == state for job in jobs) for state in (INTERRUPTED, DONE))
    counts = {"of them resumed": interrupted, "already done": before}
    said = ", ".join([f"{len(due)} to run", *(f"{count} {what}" for what, count in counts.items() if count)])
    print(f"{len(jobs)} jobs in {short_path(root)}: {said}", flush=True)
    others = others_in(root, jobs)
    if others:
        print(fold(f"note: {others}"), flush=True)
    notes = [note for job in due for note in job.notes]
    for note in dict.fromkeys(notes):
        print(fold(f"note: {note} (jobs: {notes.count(note)})"), flush=True)


def _batches(due: Sequence[Job], launcher: str, at_a_time: int) -> Iterator[Sequence[Job]]:
    """Yields all jobs at once; for submitit_local, which starts all that it is given, as many as may run at a time."""
    size = at_a_time if launcher == "submitit_local" else max(len(due), 1)
    for start in range(0, len(due), size):
        yield due[start : start + size]


def _launch(sweeper: Any, root: Path, jobs: Sequence[Job], errors: dict[Path, Exception]) -> list[JobReturn]:
    """Passes jobs to the launcher; adds to `errors` the errors that no run folder records."""
    template = str(OmegaConf.to_container(sweeper.config.hydra.sweep, resolve=False))
    numbered = "job.num" in template or "job.id" in template
    overrides = [[*job.overrides, *(_folder_override(root, job) if numbered else [])] for job in jobs]
    try:
        returns = list(sweeper.new_launcher(jobs).launch(overrides, initial_job_idx=jobs[0].number))
    except Exception as error:
        failed = JobFailed(f"{launcher_name(sweeper.config)}: {type(error).__name__}: {error}")
        errors.update({job.folder: failed for job in jobs})
        return []
    for job, done in zip(jobs, returns, strict=True):
        result = result_of(done)
        if done.status == JobStatus.FAILED and not isinstance(result, NotStarted):
            errors[job.folder] = result
        elif isinstance(result, dict):  # a unit returns the errors of its jobs
            errors.update(result)
    return returns


def _folder_override(root: Path, job: Job) -> list[str]:
    """The override that fixes the job's folder: other launchers count only the jobs that they are given."""
    return [f"hydra.sweep.subdir='{job.folder.relative_to(root)}'"]
