"""Decides which jobs of a sweep train together as a stack, and which alone.

A stack has a training step's fixed cost once instead of once for each run; its arithmetic is not reduced. An
interrupted stack keeps its members.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from experiments.config.choices import STACKABLE, Choices
from experiments.stacked.obstacles import obstacle
from experiments.sweep.capacity import open_runs
from experiments.sweep.manifest import Stack
from experiments.sweep.plan import REFUSED, Job
from experiments.tracking.flat_config import flatten
from experiments.tracking.run_status import NOT_APPLICABLE
from experiments.training.build import trial_model
from experiments.training.needs import shortage

FIXED = 3e7  # multiplications and additions that take as long as a step's fixed cost, 0.5 ms on one core
LARGEST = 128  # most replicas in a stack; fewer if a process may not open all their files
SMALLEST = 4  # fewest replicas in a stack that is split so that every worker gets a part
NO_TRAINING = (REFUSED, NOT_APPLICABLE)


@dataclass(frozen=True)
class Unit:
    """Jobs that one process trains: a single job or a stack. `reason` tells the user why.

    A slot of an interrupted stack is None if its run has ended.
    """

    slots: tuple[Job | None, ...]
    engine: Literal["single", "stacked"]
    reason: str
    work: float = 0.0  # multiplications and additions, fixed costs included

    @property
    def jobs(self) -> list[Job]:
        """Its jobs, without empty slots."""
        return [job for job in self.slots if job is not None]


def arrange(jobs: Sequence[Job], workers: int, stacks: list[Stack]) -> list[Unit]:
    """Puts every job into one unit; returns the units, the longest first.

    A job of one of `stacks` stays in that stack, unless it starts anew. New stacks are appended to `stacks`.
    """
    alone = [Unit((job,), "single", job.reason) for job in jobs if job.state in NO_TRAINING]
    runnable = [job for job in jobs if job.state not in NO_TRAINING]
    staying = [job for job in runnable if not job.begins_anew and job.plain["engine"] != "single"]
    resumed = _interrupted_stacks(staying, stacks)
    placed = {job.number for unit in resumed for job in unit.jobs}
    groups = _groups(job for job in runnable if job.number not in placed)
    share = math.ceil(workers / max(1, len(groups)))
    new = [unit for group in groups for unit in _units(group, share)]
    stacks += [tuple(str(job.config_hash) for job in unit.jobs) for unit in new if unit.engine == "stacked"]
    return sorted([*alone, *resumed, *new], key=lambda unit: -unit.work)


def describe(units: Sequence[Unit]) -> list[str]:
    """Lines that say which runs train as stacks, which alone, and why."""
    lines = []
    for engine, reason in dict.fromkeys((unit.engine, unit.reason) for unit in units):
        same = [unit for unit in units if (unit.engine, unit.reason) == (engine, reason)]
        count, sizes = sum(len(unit.jobs) for unit in same), {len(unit.slots) for unit in same}
        runs = "1 run trains" if count == 1 else f"{count} runs train"
        stacks = "1 stack" if len(same) == 1 else f"{len(same)} stacks"
        size = f"{'' if len(sizes) == 1 else 'up to '}{max(sizes)}"
        lines.append(f"{runs} alone: {reason}" if engine == "single" else f"{runs} as {stacks} of {size} ({reason})")
    return lines


def _interrupted_stacks(jobs: Sequence[Job], stacks: Sequence[Stack]) -> list[Unit]:
    """Units of earlier commands' stacks that have unfinished jobs. A job belongs to the last stack that lists it.

    The last bits of a replica may depend on the number of replicas in its stack, but not on their values. So a finished
    run's slot is kept, empty.
    """
    owner = {member: stack for stack in stacks for member in stack}
    found: dict[Stack, dict[str, Job]] = {}
    for job in jobs:
        digest = str(job.config_hash)
        if digest in owner:
            found.setdefault(owner[digest], {}).setdefault(digest, job)
    return [_stack(slots, "listed in manifest.json") for stack, own in found.items() for slots in _slots(stack, own)]


def _slots(stack: Stack, own: Mapping[str, Job]) -> Iterator[list[Job | None]]:
    """Yields the stack's slots with its jobs; in several parts if one process may not open the files of all jobs."""
    members = [member for member in stack if member in own]
    most = open_runs(len(members))
    for start in range(0, len(members), most):
        some = members[start : start + most]
        yield [own[member] if member in some else None for member in stack]


def _groups(jobs: Iterable[Job]) -> list[list[Job]]:
    """Groups the jobs that differ in stackable keys only."""
    groups: dict[Any, list[Job]] = {}
    for job in jobs:
        flat = flatten(job.plain)
        groups.setdefault((job.group, *(flat.get(key) is None for key in STACKABLE)), []).append(job)
    return list(groups.values())


def _units(group: Sequence[Job], share: int) -> list[Unit]:
    """Splits a group into single jobs, or into stacks for `share` workers."""
    choices = _choices(group[0])
    reason = _reason_against(choices, len(group))
    if reason:
        work = _work(choices, 1)
        return [Unit((job,), "single", reason, work) for job in group]
    wanted = min(len(group), LARGEST)
    most = open_runs(wanted)
    parts = max(min(share, max(1, len(group) // SMALLEST)), math.ceil(len(group) / most))
    size = math.ceil(len(group) / parts)
    chunks = [group[start : start + size] for start in range(0, len(group), size)]
    limit = f"; at most {most} runs a stack, because of the limit of open files (ulimit -n)" if most < wanted else ""
    return [_stack(chunk, f"engine={choices.settings.engine}{limit}") for chunk in chunks]


def _reason_against(choices: Choices, count: int) -> str | None:
    """Why `count` jobs of one group are not stacked; None if they are."""
    settings = choices.settings
    if settings.engine == "single":
        return "engine=single"
    if count == 1:
        return "every other run differs in more than seed, learning rate or temperature"
    stopped = obstacle(choices) or shortage(choices, min(count, LARGEST))
    if stopped:
        return f"cannot be stacked: {stopped}"
    if settings.engine == "auto" and settings.device == "cpu" and _operations(choices) > FIXED:
        return (
            "a stack would not be faster, since a step is mostly arithmetic (engine=stacked stacks them all the same)"
        )
    return None


def _stack(slots: Sequence[Job | None], reason: str) -> Unit:
    first = next(job for job in slots if job is not None)
    return Unit(tuple(slots), "stacked", reason, _work(_choices(first), len(slots)))


def _choices(job: Job) -> Choices:
    assert job.choices is not None
    return job.choices


def _work(choices: Choices, replicas: int) -> float:
    return choices.settings.max_steps * (FIXED + replicas * _operations(choices))


def _operations(choices: Choices) -> float:
    """The operations of a training step: six for each weight and sample; in convolutions also for each position."""
    model = trial_model(choices)
    weights = sum(parameter.numel() for parameter in model.parameters())
    if any(isinstance(module, nn.Conv1d | nn.Conv2d) for module in model.modules()):
        weights *= math.prod(choices.data.input_shape[1:])
    return 6.0 * choices.settings.batch_size * weights
