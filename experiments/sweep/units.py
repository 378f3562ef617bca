"""Stacks on other launchers: one task of a Ray cluster or of Slurm trains a whole stack."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from experiments.sweep.arrange import arrange
from experiments.sweep.capacity import launcher_name
from experiments.sweep.command_folder import unit_folder
from experiments.sweep.manifest import update_stacks
from experiments.sweep.plan import Job
from experiments.sweep.requests import request_of
from experiments.sweep.unit_files import unit_file, write_unit


def launches_units(config: DictConfig) -> bool:
    """Whether stacks go to another launcher: only if engine=stacked asks for them."""
    return launcher_name(config) not in ("basic", "stacked") and config.engine == "stacked"


def write_units(task: Any, root: Path, jobs: Sequence[Job], workers: int) -> list[Job]:
    """Writes a file for each stack; returns the jobs to launch, one for each unit. Such a job trains its whole unit."""
    with update_stacks(root) as stacks:
        units = arrange(jobs, workers, stacks)
    task.units = unit_folder(root, task.name)
    for unit in units:
        if unit.engine == "stacked":
            requests = [None if job is None else request_of(task, job) for job in unit.slots]
            write_unit(unit_file(task.units, str(unit.jobs[0].folder)), requests)
    return [unit.jobs[0] for unit in units]
