"""Stacks as the unit of other launchers: one task of a Ray cluster or of Slurm trains a whole group of jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from experiments.stacked.arrange import arrange
from experiments.stacked.job import Job as Composed
from experiments.stacked.job import compose
from experiments.sweep.plan import Job
from experiments.sweep.workers import launcher_name


def in_units(config: DictConfig) -> bool:
    """Whether groups of jobs go to a launcher that knows nothing of them: where an engine that stacks was asked for."""
    return launcher_name(config) not in ("basic", "stacked") and config.engine in ("stacked", "compiled")


def first_of_units(sweeper: Any, jobs: Sequence[Job], at_a_time: int) -> list[Job]:
    """The jobs to launch; each one's process trains the jobs of its unit with it, as its task has noted."""
    composed = compose(sweeper, [job.overrides for job in jobs], 0)
    units = arrange([one.own for one in composed], [job.overrides for job in jobs], at_a_time)
    for unit in units:
        if unit.engine != "single":
            requests = [_request(sweeper.task_function, composed[number], jobs[number]) for number in unit.jobs]
            sweeper.task_function.together[str(requests[0].folder)] = (unit.engine == "compiled", requests)
    return [jobs[unit.jobs[0]] for unit in units]


def _request(task: Any, composed: Composed, job: Job) -> Any:
    before = HydraConfig.instance().cfg
    try:
        HydraConfig.instance().set_config(composed.config)
        return dataclasses.replace(task.request(composed.own, quiet=True), folder=job.folder)
    finally:
        HydraConfig.instance().cfg = before
