"""Which jobs train together, and by which engine: decided from their configurations.

A sweep that is resumed keeps the engines that its manifest lists.

The estimate counts a training step's fixed cost, which a stack pays once instead of once a run, and its arithmetic,
which it does not save. Milliseconds on one core of a 2026 server, of which only the ratios matter;
`benchmarks/engines.py` prints what they are on the machine at hand.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, cast

from omegaconf import DictConfig
from torch import nn

from experiments.config.choices import NOT_HASHED, STACKABLE, Choices, ConfigError, choose, config_hash
from experiments.stacked.obstacles import obstacle
from experiments.sweep.manifest import Stack
from experiments.sweep.restored import Places, restored
from experiments.tracking.flat_config import flatten
from experiments.training.build import build_model
from experiments.training.identity import Identifier, Identity

Engine = Literal["single", "stacked"]

SINGLE, STACK = 0.42, 0.41  # milliseconds of dispatch a step
FLOPS = 5.3e7  # multiplications and additions a millisecond
PASSES = 1.3  # the arithmetic of a stack, whose tensors leave the cache
ROW = 0.006  # milliseconds a replica
WORTH = 1.2  # the least gain for which to stack
LARGEST = 128  # replicas a stack, which keep three files open each
SMALLEST = 4  # replicas a stack that is only split to give every worker some


@dataclasses.dataclass(frozen=True)
class Unit:
    """Jobs, by their numbers, that one process trains together; `reason` is for the user.

    A place is None where the run that an earlier command had there is over.
    """

    places: Places
    engine: Engine
    reason: str
    milliseconds: float = 0.0  # an estimate

    @property
    def jobs(self) -> tuple[int, ...]:
        """Those of its places."""
        return tuple(job for job in self.places if job is not None)

    @property
    def is_stack(self) -> bool:
        """Whether its jobs train as one model."""
        return self.engine != "single"


def arrange(
    configs: Sequence[DictConfig],
    overrides: Sequence[Sequence[str]],
    identify: Identifier,
    workers: int,
    stacks: list[Stack],
    anew: Collection[int] = (),
) -> list[Unit]:
    """Units that hold every job once, the longest first.

    A job that is in one of `stacks` stays there, unless it is made `anew`; what is put together is added to them.
    """
    identified, alone = _identified(configs, overrides, identify)
    hashes = {job: found.config_hash for job, found in identified.items()}
    staying = {job: digest for job, digest in hashes.items() if job not in anew and configs[job].engine != "single"}
    kept = [_as_before(stack, places, configs, stacks) for stack, places in restored(staying, stacks).items()]
    seated = {job for unit in kept for job in unit.jobs}
    groups = _groups({job: found for job, found in identified.items() if job not in seated})
    share = max(1, math.ceil(workers / max(1, len(groups))))
    fresh = [unit for jobs in groups for unit in _units(jobs, choose(configs[jobs[0]]), share)]
    stacks += [Stack(unit.engine, tuple(map(hashes.__getitem__, unit.jobs))) for unit in fresh if unit.is_stack]
    units = [*(Unit((job,), "single", why) for job, why in alone.items()), *kept, *fresh]
    return sorted(units, key=lambda unit: -unit.milliseconds)


def _identified(
    configs: Sequence[DictConfig], overrides: Sequence[Sequence[str]], identify: Identifier
) -> tuple[dict[int, Identity], dict[int, str]]:
    """What the jobs are, and why some are alone."""
    identified, alone = dict[int, Identity](), dict[int, str]()
    for job, (config, own) in enumerate(zip(configs, overrides, strict=True)):
        try:
            found = identify(config, own)
        except ConfigError as error:
            alone[job] = str(error)  # which it will say itself
            continue
        if found.missing:
            alone[job] = found.missing
        else:
            identified[job] = found
    return identified, alone


def _groups(identified: Mapping[int, Identity]) -> list[list[int]]:
    """Jobs that differ in stackable keys only."""
    groups = dict[Any, list[int]]()
    for job, found in identified.items():
        flat = flatten(found.plain)
        unset = tuple(flat.get(key) is None for key in STACKABLE)
        groups.setdefault((config_hash(found.plain, (*NOT_HASHED, *STACKABLE)), unset), []).append(job)
    return list(groups.values())


def _as_before(stack: Stack, places: Places, configs: Sequence[DictConfig], stacks: list[Stack]) -> Unit:
    """The unit of a stack that is there already; its engine is the one it had, unless another is asked for."""
    size, first = len(places), next(job for job in places if job is not None)
    choices = choose(configs[first])
    engine, reason = cast(Engine, stack.engine), f"in the stack of {size} that manifest.json lists"
    if choices.settings.engine not in ("auto", engine):
        engine, reason = _forced(choices)
        stacks[stacks.index(stack)] = dataclasses.replace(stack, engine=engine)
    together = STACK + size * (PASSES * _milliseconds(choices) + ROW)
    return Unit(places, engine, reason, _cost(choices, together))


def _units(jobs: list[int], choices: Choices, share: int) -> list[Unit]:
    step = _milliseconds(choices)
    steps, forced = choices.settings.max_steps, choices.settings.engine
    parts = _parts(len(jobs), share, forced)
    size = math.ceil(len(jobs) / parts)
    chunks = [tuple(jobs[start : start + size]) for start in range(0, len(jobs), size)]
    together = STACK + size * (PASSES * step + ROW)
    gain = size * (SINGLE + step) / together
    engine, reason = _engine(choices, len(chunks[0]), gain)
    if engine == "single":
        return [Unit((job,), engine, reason, steps * (SINGLE + step)) for job in jobs]
    cost = _cost(choices, together)
    return [Unit(chunk, engine, reason, cost) for chunk in chunks]


def _cost(choices: Choices, together: float) -> float:
    return choices.settings.max_steps * together


def _parts(count: int, share: int, forced: str) -> int:
    for_workers = min(share, max(1, count // SMALLEST))
    return max(for_workers, math.ceil(count / LARGEST))


def _engine(choices: Choices, size: int, gain: float) -> tuple[Engine, str]:
    """The engine for stacks of so many of these configurations, and the reason for it."""
    settings = choices.settings
    forced = settings.engine
    if forced == "single":
        return "single", "engine=single"
    if size == 1:
        return "single", "no other job differs from it in stackable keys only"
    stopped = obstacle(choices)
    if stopped:
        return "single", f"cannot be stacked: {stopped}"
    if forced != "auto":
        return _forced(choices)
    if settings.device == "cpu" and gain < WORTH:
        return "single", f"{size} as one stack would be only about {gain:.1f} x as fast"
    return "stacked", f"{size} as one stack, about {gain:.0f} x as fast as one by one"


def _forced(choices: Choices) -> tuple[Engine, str]:
    engine = cast(Engine, choices.settings.engine)
    return engine, f"engine={engine}"


def _milliseconds(choices: Choices) -> float:
    """The arithmetic of a training step: six operations a weight and sample, for convolutions at every position."""
    model = build_model(choices)
    weights = sum(parameter.numel() for parameter in model.parameters())
    if any(isinstance(module, nn.Conv1d | nn.Conv2d) for module in model.modules()):
        weights *= math.prod(choices.data.input_shape[1:])
    return 6.0 * choices.settings.batch_size * weights / FLOPS
