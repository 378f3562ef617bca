"""Launches the jobs of a sweep: groups of them as stacks, the others one by one, on as many processes as there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus, run_job, setup_globals

from experiments.command.task import JobFailed, NotStarted, objective, refuse_dry_run
from experiments.stacked.run import run_group
from experiments.sweep.arrange import Unit, arrange
from experiments.sweep.capacity import cores
from experiments.sweep.compose import Composer, current
from experiments.sweep.composed import Job, compose
from experiments.sweep.manifest import Stack, known_beforehand, noting_stacks, read_stacks, record
from experiments.sweep.plan import Job as PlannedJob
from experiments.sweep.plan import identified
from experiments.sweep.processes import WorkerDied, work
from experiments.tracking.run_status import DONE, NOT_APPLICABLE
from experiments.training.identity import Identifier
from experiments.training.run import Outcome, Request

Ended = tuple[Any, bool]  # what a job returned or raised, and whether it failed


def launch(launcher: Any, job_overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
    """How every job ended, in their order; raises Interrupted once all that were running are saved."""
    refuse_dry_run(launcher.config)
    setup_globals()
    composer = launcher.composer or Composer(launcher.hydra_context.config_loader, launcher.config)
    jobs = compose(composer, job_overrides, first)
    root = _root(jobs)
    if not known_beforehand(launcher.config.hydra):
        record(root, [_planned(job, composer.identify) for job in jobs])
    with noting_stacks(root) as stacks:
        units, workers = _arranged(jobs, composer.identify, stacks)
    print("\n".join(_words(jobs, units, workers)), flush=True)

    def run(unit: Unit) -> list[Ended]:
        return run_unit(launcher, [None if number is None else jobs[number] for number in unit.places], unit)

    ended: dict[int, Ended] = {}
    for unit, results in zip(units, work(run, units, workers), strict=True):
        if isinstance(results, WorkerDied):
            results = [(results, True)] * len(unit.jobs)
        ended.update(zip(unit.jobs, results, strict=True))
    return [job.ended(*ended[number]) for number, job in enumerate(jobs)]


def described(composer: Composer, job_overrides: Sequence[Sequence[str]]) -> str:
    """How `launch` would go about the jobs, in words."""
    jobs = compose(composer, job_overrides, 0)
    return "; ".join(_words(jobs, *_arranged(jobs, composer.identify, read_stacks(_root(jobs)) if jobs else [])))


def _root(jobs: Sequence[Job]) -> Path:
    return Path(str(jobs[0].config.hydra.sweep.dir)).absolute()


def _planned(job: Job, identify: Identifier) -> PlannedJob:
    folder = Path(str(job.config.hydra.runtime.output_dir))
    return identified(PlannedJob(0, job.overrides, folder), job.config, identify)


def _arranged(jobs: Sequence[Job], identify: Identifier, stacks: list[Stack]) -> tuple[list[Unit], int]:
    """The units, and how many processes run them: as many as there are cores for their threads, unless told."""
    threads = max((int(job.config.threads) for job in jobs), default=1)
    told = jobs[0].config.workers if jobs else None
    workers = int(told or max(1, cores() // threads))
    anew = [number for number, job in enumerate(jobs) if job.begins_anew]
    overrides = [job.overrides for job in jobs]
    units = arrange([job.config for job in jobs], overrides, identify, workers, stacks, anew)
    return units, max(1, min(workers, len(units)))


def _words(jobs: Sequence[Job], units: Sequence[Unit], workers: int) -> list[str]:
    counts: Counter[tuple[str, str]] = Counter()
    for unit in units:
        counts[unit.engine, unit.reason] += len(unit.jobs)
    lines = [f"engine {engine} for {count} jobs: {reason}" for (engine, reason), count in counts.items()]
    threads = max((int(job.config.threads) for job in jobs), default=1)
    return [*lines, f"{len(units)} units on {workers} processes, threads {threads} each"]


def run_unit(launcher: Any, places: Sequence[Job | None], unit: Unit) -> list[Ended]:
    """Trains the jobs in the places of a unit; never raises but Interrupted."""
    if unit.is_stack:
        return _together(launcher, places, unit)
    return [_alone(launcher, job) for job in places if job is not None]


def _alone(launcher: Any, job: Job) -> Ended:
    done = run_job(
        hydra_context=launcher.hydra_context,
        task_function=launcher.task_function,
        config=job.config,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
    )
    return done._return_value, done.status == JobStatus.FAILED


def _together(launcher: Any, places: Sequence[Job | None], unit: Unit) -> list[Ended]:
    task, callbacks = launcher.task_function, launcher.hydra_context.callbacks
    jobs = [job for job in places if job is not None]
    try:
        task.refuse_if_stopped(_root(jobs))
    except NotStarted as refused:
        return [(refused, True)] * len(jobs)

    def request(job: Job) -> Request:
        with current(job.config):
            callbacks.on_job_start(config=job.config, task_function=task)
            asked: Request = task.request(job.config, quiet=True)
            return asked

    requests = [None if job is None else request(job) for job in places]
    ended = [_result(ending) for ending in run_group(requests)]
    for job, one in zip(jobs, ended, strict=True):
        with current(job.config):
            callbacks.on_job_end(config=job.config, job_return=job.ended(*one))
    if jobs[0].config.on_error == "stop" and any(failed for _, failed in ended):
        task.stop(_root(jobs))
    return ended


def _result(ending: Outcome | Exception) -> Ended:
    if isinstance(ending, Exception):
        return JobFailed(str(ending) or type(ending).__name__), True
    if ending.status not in (DONE, NOT_APPLICABLE):
        return JobFailed(ending.reason or ending.status), True
    return objective(ending.result), False
