"""Stacks as the unit of other launchers: one task of a Ray cluster or of Slurm trains a whole group of jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from experiments.sweep.arrange import arrange
from experiments.sweep.capacity import launcher_name
from experiments.sweep.command_folder import unit_folder
from experiments.sweep.compose import Composer, current
from experiments.sweep.composed import Job as Composed
from experiments.sweep.composed import compose
from experiments.sweep.manifest import noting_stacks
from experiments.sweep.plan import Job
from experiments.sweep.unit_files import unit_file, write_unit
from experiments.training.run import Request


def in_units(config: DictConfig) -> bool:
    """Whether groups of jobs go to a launcher that knows nothing of them: where an engine that stacks was asked for."""
    return launcher_name(config) not in ("basic", "stacked") and config.engine in ("stacked", "compiled")


def first_of_units(sweeper: Any, root: Path, jobs: Sequence[Job], at_a_time: int) -> list[Job]:
    """The jobs to launch; each one's process trains its whole unit, as a file for it says."""
    composer: Composer = sweeper.composer
    composed = compose(composer, [job.overrides for job in jobs], 0)
    anew = [number for number, job in enumerate(jobs) if job.begins_anew]
    overrides = [job.overrides for job in jobs]
    with noting_stacks(root) as stacks:
        units = arrange([one.config for one in composed], overrides, composer.identify, at_a_time, stacks, anew)
    task = sweeper.task_function
    task.units = unit_folder(root, task.name)
    for unit in units:
        if unit.is_stack:
            requests = [None if one is None else _request(task, composed[one], jobs[one]) for one in unit.places]
            file = unit_file(task.units, str(jobs[unit.jobs[0]].folder))
            write_unit(file, requests, False)
    return [jobs[unit.jobs[0]] for unit in units]


def _request(task: Any, composed: Composed, job: Job) -> Request:
    with current(composed.config):
        request: Request = task.request(composed.config, quiet=True)
    return dataclasses.replace(request, folder=job.folder)
