"""What a run will need at least, from its configuration, before anything is built: memory, and time.

Memory in bytes, b the bytes of a number, P parameters, A activations of a sample, B the batch size, S samples:

- weights:     3 P b, the weights, their gradients and the best weights so far; P b where nothing is trained
- layers:      10,000 a block, Python's and torch's objects
- activations: B A b, times the repeats of a component's op and the samples of a strategy
- data:        S (b + 1) times the numbers of a sample, the standardised ones and the bytes they are made from;
               for each replica also the samples that it generates for an epoch

P and A are those of the linear and conv layers (`ModelSize`), times the replicas of a stack. The optimizer's state,
intermediate results and the program itself are not counted: what is refused cannot fit.

Time in seconds: 5e-5 a step, 1e-5 a call of a block's op, 1e-6 a generated sample, and the 6 P B operations of a step
at 2e11 a second and thread. No machine is faster: what is called long is longer.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from experiments.config.choices import Choices, ConfigError
from experiments.models.size import ModelSize
from experiments.tracking.flat_config import flatten
from surrogates.strategies.samples import Averaged

BLOCK = 10_000  # bytes
GENERATE = 1e-6  # seconds a sample
DAY = LONG = 24 * 3600.0  # seconds
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


@dataclass(frozen=True)
class Need:
    """Bytes for one purpose, and the root keys and groups of the configuration that set how many."""

    bytes: int
    purpose: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Scale:
    """The sizes that a configuration asks for.

    `repeats` of every component's op, `draws` of its noise, `samples` of the data's parts, `epoch_samples` that a run
    generates for each epoch.
    """

    model: ModelSize
    repeats: int
    draws: int
    samples: int
    epoch_samples: int

    @classmethod
    def of(cls, choices: Choices) -> Scale:
        """0 where a model or a data set of other people states none."""
        with torch.random.fork_rng(devices=[]):
            component = choices.component(strategy=choices.strategy)
        fan_in, own = sum(component.branches.values()), sum(p.numel() for p in component.parameters())
        data, measure = choices.data, getattr(choices.model.func, "size", None)
        options = choices.model.keywords
        model = measure(data.input_shape, data.classes, fan_in, **options) if measure else ModelSize(0, 0, 0)
        model = ModelSize(model.parameters + own * model.blocks, model.activations, model.blocks)
        draws = choices.strategy.samples if isinstance(choices.strategy, Averaged) else 1
        generated = getattr(data, "samples", 0), getattr(data, "epoch_samples", 0)
        return cls(model, component.repeats, draws, *generated)


def require_memory(choices: Choices, training: bool) -> None:
    """Raises ConfigError, with the estimate, the memory there is and the keys, for what this machine cannot hold."""
    reason = shortage(choices, training=training)
    if reason:
        raise ConfigError(reason)


def shortage(choices: Choices, replicas: int = 1, training: bool = True) -> str | None:
    """Why a run, or a stack of replicas, cannot fit into this machine's memory; None if it may."""
    there = memory(choices.settings.device)
    needs = list(_needs(choices, Scale.of(choices), replicas, training))
    total = sum(need.bytes for need in needs)
    if there is None or total <= there:
        return None
    worst = max(needs, key=lambda need: need.bytes)
    what = "this run" if replicas == 1 else f"a stack of {replicas} runs"
    keys = ", ".join(_largest_numbers(choices.plain, worst.keys))
    return (
        f"{what} needs at least {_readable(total)} of memory, {_readable(worst.bytes)} of it for {worst.purpose} "
        f"({keys}); this machine has {_readable(there)}; choose smaller values"
    )


def _needs(choices: Choices, scale: Scale, replicas: int, training: bool) -> Iterable[Need]:
    size = 8 if choices.settings.precision == "float64" else 4
    held = 3 if training else 1
    shape = ("model", "component", "data")
    yield Need(held * scale.model.parameters * size * replicas, "weights", shape)
    yield Need(scale.model.blocks * BLOCK * replicas, "layers", ("model",))
    if training:
        repeated = scale.repeats * scale.draws
        batch = choices.settings.batch_size * scale.model.activations * repeated * size * replicas
        yield Need(batch, "the activations of a batch", ("batch_size", "model", "component", "strategy", "data"))
        samples = scale.samples * (size + 1) + scale.epoch_samples * size * replicas
        yield Need(samples * prod(choices.data.input_shape), "data", ("data",))


def note_long(choices: Choices) -> list[str]:
    """A note for a run that takes more than a day on any machine; empty for others."""
    seconds = least_seconds(choices)
    if seconds < LONG:
        return []
    keys = ", ".join(_largest_numbers(choices.plain, ("max_steps", "batch_size", "model", "component", "data")))
    time = f"{seconds / DAY:,.0f} days" if seconds < 1000 * DAY else f"{seconds / DAY / 365:,.0f} years"
    return [f"this run takes at least {time} ({keys}); it may be stopped at any time; the same command resumes it"]


def least_seconds(choices: Choices) -> float:
    """The time that a run takes at least, on the fastest machine there is."""
    scale, settings = Scale.of(choices), choices.settings
    speed = 2e11 * settings.threads if torch.device(settings.device).type == "cpu" else 1e15
    operations = 6.0 * settings.batch_size * scale.model.parameters
    step = 5e-5 + 1e-5 * scale.repeats * scale.model.blocks + operations / speed
    step += GENERATE * settings.batch_size * (scale.epoch_samples > 0)
    return settings.max_steps * step + GENERATE * scale.samples


def memory(device: str) -> int | None:
    """Bytes of the device, or of this machine or container; None where the system does not say."""
    if torch.device(device).type == "cuda":
        if not torch.cuda.is_available():  # the jobs of a cluster are planned on another machine
            return None
        return int(torch.cuda.get_device_properties(device).total_memory)
    known = [_limit(path) for path in LIMITS]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min((found for found in known if found is not None), default=None)


def _limit(path: str) -> int | None:
    try:
        text = Path(path).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _largest_numbers(plain: dict[str, Any], keys: Iterable[str]) -> list[str]:
    """The two largest whole numbers among some keys and those of some groups, as they are typed."""
    found = {key: value for key, value in flatten({key: plain[key] for key in keys}).items() if type(value) is int}
    return [f"{key}={found[key]}" for key in sorted(found, key=lambda key: -found[key])[:2]]


def _readable(count: int) -> str:
    """Bytes in the largest unit of which there is at least one."""
    units = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
    power = min((len(str(count)) - 1) // 3, len(units) - 1)
    return f"{count / 1000**power:.3g} {units[power]}"
