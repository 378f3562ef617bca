"""Which jobs train together, and by which engine: decided from their configurations alone, so that resuming agrees.

The estimate counts a training step's fixed cost, which a stack pays once instead of once a run, and its arithmetic,
which it does not save. Milliseconds on one core of a 2026 server; only their ratios matter.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

from omegaconf import DictConfig
from torch import nn

from experiments.build import build_model
from experiments.config import NOT_HASHED, STACKABLE, Choices, ConfigError, choose, config_hash
from experiments.identity import Identifier
from experiments.stacked.compiled import obstacle as compiled_obstacle
from experiments.stacked.obstacles import obstacle
from experiments.tracking.flat_config import flatten

Engine = Literal["single", "stacked", "compiled"]

SINGLE, STACK = 0.6, 2.5  # milliseconds of dispatch a step
FLOPS = 3e7  # multiplications and additions a millisecond
PASSES = 1.3  # the arithmetic of a stack, whose tensors leave the cache
ROW = 0.02  # milliseconds a replica
COMPILED = 0.5  # a compiled step, of an eager one
COMPILING = 15_000.0  # milliseconds, with nothing in the cache
WORTH = 1.2  # the least gain for which to stack
LARGEST = 128  # replicas a stack, which keep three files open each
SMALLEST = 4  # replicas a stack that is only split to give every worker some


@dataclasses.dataclass(frozen=True)
class Unit:
    """Jobs, by their numbers, that one process trains together; `reason` is for the user."""

    jobs: tuple[int, ...]
    engine: Engine
    reason: str
    milliseconds: float = 0.0  # an estimate


def arrange(configs: Sequence[DictConfig], overrides: Sequence[Sequence[str]], workers: int) -> list[Unit]:
    """Units that hold every job once, the longest first."""
    groups, alone = _groups(configs, overrides)
    units = [Unit((job,), "single", why) for job, why in alone.items()]
    share = max(1, math.ceil(workers / max(1, len(groups))))
    for jobs in groups:
        units += _units(jobs, choose(configs[jobs[0]]), share)
    return sorted(units, key=lambda unit: -unit.milliseconds)


def _groups(
    configs: Sequence[DictConfig], overrides: Sequence[Sequence[str]]
) -> tuple[list[list[int]], dict[int, str]]:
    """Jobs that differ in stackable keys only, and why others are alone."""
    identify, groups, alone = Identifier(), dict[Any, list[int]](), dict[int, str]()
    for job, (config, own) in enumerate(zip(configs, overrides, strict=True)):
        try:
            found = identify(config, own)
        except ConfigError as error:
            alone[job] = str(error)  # which it will say itself
            continue
        if found.missing:
            alone[job] = found.missing
            continue
        flat = flatten(found.plain)
        unset = tuple(flat.get(key) is None for key in STACKABLE)
        groups.setdefault((config_hash(found.plain, (*NOT_HASHED, *STACKABLE)), unset), []).append(job)
    return list(groups.values()), alone


def _units(jobs: list[int], choices: Choices, share: int) -> list[Unit]:
    step = _milliseconds(choices)
    steps, forced = choices.settings.max_steps, choices.settings.engine
    parts = _parts(len(jobs), share, forced)
    size = math.ceil(len(jobs) / parts)
    together = STACK + size * (PASSES * step + ROW)
    gain = size * (SINGLE + step) / together
    engine, reason = _engine(choices, size, gain, together)
    if engine == "single":
        return [Unit((job,), engine, reason, steps * (SINGLE + step)) for job in jobs]
    cost = steps * together * (COMPILED if engine == "compiled" else 1.0)
    chunks = [tuple(jobs[start : start + size]) for start in range(0, len(jobs), size)]
    return [Unit(chunk, engine, reason, cost) for chunk in chunks]


def _parts(count: int, share: int, forced: str) -> int:
    for_workers = min(share, max(1, count // SMALLEST))
    return max(for_workers, math.ceil(count / LARGEST))


def _engine(choices: Choices, size: int, gain: float, together: float) -> tuple[Engine, str]:
    """The engine, and the reason for it."""
    settings = choices.settings
    forced = settings.engine
    if forced == "single":
        return "single", "engine=single"
    if size == 1:
        return "single", "no other job differs from it in stackable keys only"
    stopped = obstacle(choices)
    if stopped:
        return "single", f"cannot be stacked: {stopped}"
    against = compiled_obstacle(build_model(choices))
    if forced != "auto":
        if forced == "compiled" and against:
            return "stacked", f"engine={forced}, but the step cannot be compiled: {against}"
        return forced, f"engine={forced}"
    if settings.device == "cpu" and gain < WORTH:
        return "single", f"{size} as one stack would be only about {gain:.1f} x as fast"
    saved = settings.max_steps * together * (1 - COMPILED)
    words = f"{size} as one stack, about {gain:.0f} x as fast as one by one"
    if saved > COMPILING and not against:
        return "compiled", f"{words}, and compiled, since {settings.max_steps} steps repay that"
    return "stacked", words


def _milliseconds(choices: Choices) -> float:
    """The arithmetic of a training step: six operations a weight and sample, for convolutions at every position."""
    model = build_model(choices)
    weights = sum(parameter.numel() for parameter in model.parameters())
    if any(isinstance(module, nn.Conv1d | nn.Conv2d) for module in model.modules()):
        weights *= math.prod(choices.data.input_shape[1:])
    return 6.0 * choices.settings.batch_size * weights / FLOPS
