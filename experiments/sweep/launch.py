"""The launcher `stacked`: trains groups of jobs as stacks and other jobs one by one, in worker processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from os import getcwd
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus, run_job, setup_globals
from omegaconf import DictConfig

from experiments.config.folder_names import typed_overrides
from experiments.stacked.run import run_group
from experiments.sweep.arrange import Unit, arrange, describe
from experiments.sweep.capacity import cores
from experiments.sweep.command_folder import refuse_if_stopped, stop
from experiments.sweep.compose import Composer, current
from experiments.sweep.ending import Elsewhere, JobFailed, NotStarted, refuse_dry_run, result_of, value_of
from experiments.sweep.manifest import read_stacks, record, update_stacks
from experiments.sweep.plan import Job, compose_job, with_state
from experiments.sweep.processes import WorkerDied, work
from experiments.sweep.requests import request_of
from experiments.tracking.run_errors import FolderError
from experiments.training.identity import Identifier
from experiments.training.run import Outcome, Request

Ended = tuple[Any, bool]  # what a job returned or raised, and whether it failed


def launch(launcher: Any, job_overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
    """Runs the jobs; returns how each ended, in their order.

    Raises Interrupted at a signal, after all running jobs have saved.
    """
    refuse_dry_run(launcher.config)
    setup_globals()
    root = Path(str(launcher.config.hydra.sweep.dir)).absolute()
    jobs = launcher.jobs or _compose_jobs(launcher, root, job_overrides, first)
    workers = _workers(launcher.config, jobs)
    with update_stacks(root) as stacks:
        units = arrange(jobs, workers, stacks)
    print("\n".join(_plan_in_words(units, workers)), flush=True)

    def run(unit: Unit) -> list[Ended]:
        return _together(launcher, root, unit) if unit.engine == "stacked" else [_alone(launcher, unit.jobs[0])]

    ended: dict[int, Ended] = {}
    for unit, results in zip(units, work(run, units, min(workers, len(units))), strict=True):
        if isinstance(results, WorkerDied):
            results = [(results, True)] * len(unit.jobs)
        ended.update(zip((job.number for job in unit.jobs), results, strict=True))
    return [_job_return(job, *ended[job.number]) for job in jobs]


def preview_launch(config: DictConfig, root: Path, jobs: Sequence[Job]) -> str:
    """How `launch` would train the jobs, as text."""
    workers = _workers(config, jobs)
    return "; ".join(_plan_in_words(arrange(jobs, workers, read_stacks(root)), workers))


def _compose_jobs(launcher: Any, root: Path, job_overrides: Sequence[Sequence[str]], first: int) -> list[Job]:
    """Composes and records the jobs of another sweeper than `listed`."""
    composer, identify = Composer(launcher.hydra_context.config_loader, launcher.config), Identifier()
    jobs = []
    for number, overrides in enumerate(job_overrides, first):
        job = compose_job(composer, overrides, number, identify)
        with suppress(FolderError, OSError, ValueError):  # the run itself will raise it
            job = with_state(job)
        jobs.append(job)
    record(root, jobs, typed_overrides(launcher.config.hydra.overrides.task))
    return jobs


def _workers(config: DictConfig, jobs: Sequence[Job]) -> int:
    """The number of processes: `workers`, or as many as the cores allow with the jobs' threads."""
    return int(config.workers or max(1, cores() // _threads(jobs)))


def _threads(jobs: Sequence[Job]) -> int:
    return max((int(job.plain["threads"]) for job in jobs if job.plain), default=1)


def _plan_in_words(units: Sequence[Unit], workers: int) -> list[str]:
    processes = max(1, min(workers, len(units)))
    threads = _threads([job for unit in units for job in unit.jobs])
    stacks = "; the runs of a stack train as one model" if any(unit.engine == "stacked" for unit in units) else ""
    plural = ["" if count == 1 else more for count, more in ((processes, "es"), (threads, "s"))]
    return [*describe(units), f"{processes} process{plural[0]}, {threads} thread{plural[1]} each{stacks}"]


def _alone(launcher: Any, job: Job) -> Ended:
    done = run_job(
        hydra_context=launcher.hydra_context,
        task_function=launcher.task_function,
        config=job.config,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )
    return result_of(done), done.status == JobStatus.FAILED


def _together(launcher: Any, root: Path, unit: Unit) -> list[Ended]:
    """Trains a stack; returns the errors of its runs instead of raising them.

    Raises Interrupted at a signal.
    """
    task, callbacks = launcher.task_function, launcher.hydra_context.callbacks
    try:
        refuse_if_stopped(root, task.name)
    except NotStarted as refused:
        return [(refused, True)] * len(unit.jobs)

    def request(job: Job) -> Request:
        with current(job.config):
            callbacks.on_job_start(config=job.config, task_function=task)
        return request_of(task, job)

    endings = run_group([None if job is None else request(job) for job in unit.slots])
    ended = [_result_and_failure(ending) for ending in endings]
    for job, one in zip(unit.jobs, ended, strict=True):
        with current(job.config):
            callbacks.on_job_end(config=job.config, job_return=_job_return(job, *one))
    if launcher.config.on_error == "stop" and any(failed and not isinstance(one, Elsewhere) for one, failed in ended):
        stop(root, task.name)
    return ended


def _result_and_failure(ending: Outcome | Exception) -> Ended:
    try:
        return value_of(ending), False
    except JobFailed as error:
        return error, True


def _job_return(job: Job, result: Any, failed: bool) -> JobReturn:
    """A job's result in Hydra's form. Both of its configurations are the whole one, with Hydra's part."""
    status = JobStatus.FAILED if failed else JobStatus.COMPLETED
    done = JobReturn(job.overrides, job.config, job.config, getcwd(), job.config.hydra.job.name, status)
    done.return_value = result
    return done
