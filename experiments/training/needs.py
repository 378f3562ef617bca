"""Lower bounds of a run's memory and time, from its configuration, before anything is built.

Memory in bytes, b the bytes of a number, P parameters, A activations of a sample, B the batch size, S samples:

- weights:     3 P b for the weights, their gradients and the best weights so far; P b without training
- layers:      10,000 for each block: objects of Python and torch
- activations: B A b, times the repeats of the component's op and the noise samples of the strategy
- data:        S (b + 1) times the numbers in a sample: standardised numbers, and the bytes that they come from;
               for each replica also the samples that it generates for an epoch

P and A count linear and conv layers only (`ModelSize`); a stack multiplies them by its replicas. The optimizer's state,
intermediate results and the program are not counted. So a run that is refused really cannot fit.

Time in seconds: 5e-5 for each step, 1e-5 for each call of a block's op, 1e-6 for each generated sample, and the 6 P B
operations of each step at 2e11 per second and thread. A real machine is slower, so a run takes longer than this.
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
    """The bytes for one purpose; `keys` are the root keys and groups that determine their number."""

    bytes: int
    purpose: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Scale:
    """The sizes in a configuration.

    `repeats`: calls of a component's op in a pass; `draws`: draws of its noise; `samples`: of the three parts;
    `epoch_samples`: training samples that a run generates for each epoch.
    """

    model: ModelSize
    repeats: int
    draws: int
    samples: int
    epoch_samples: int

    @classmethod
    def of(cls, choices: Choices) -> Scale:
        """Reads the sizes; a size that a model or data set does not state is 0."""
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
    """Checks that the run fits into this machine's memory.

    Raises ConfigError if it does not, with the estimate, the memory and the keys that determine it.
    """
    reason = shortage(choices, training=training)
    if reason:
        raise ConfigError(reason)


def shortage(choices: Choices, replicas: int = 1, training: bool = True) -> str | None:
    """Why a run, or a stack of replicas, cannot fit into this machine's memory; None if it may fit."""
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
    """A note for a run that takes more than a day on any machine; empty for a shorter run."""
    seconds = least_seconds(choices)
    if seconds < LONG:
        return []
    keys = ", ".join(_largest_numbers(choices.plain, ("max_steps", "batch_size", "model", "component", "data")))
    time = f"{seconds / DAY:,.0f} days" if seconds < 1000 * DAY else f"{seconds / DAY / 365:,.0f} years"
    return [f"this run takes at least {time} ({keys}); it may be stopped at any time; the same command resumes it"]


def least_seconds(choices: Choices) -> float:
    """A lower bound of the time that a run takes."""
    scale, settings = Scale.of(choices), choices.settings
    speed = 2e11 * settings.threads if torch.device(settings.device).type == "cpu" else 1e15
    operations = 6.0 * settings.batch_size * scale.model.parameters
    step = 5e-5 + 1e-5 * scale.repeats * scale.model.blocks + operations / speed
    step += GENERATE * settings.batch_size * (scale.epoch_samples > 0)
    return settings.max_steps * step + GENERATE * scale.samples


def memory(device: str) -> int | None:
    """The bytes of memory of the GPU, or of this machine or container; None if the system does not say."""
    if torch.device(device).type == "cuda":
        if not torch.cuda.is_available():  # a cluster's jobs are planned on a machine that may lack a GPU
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
    """The two largest whole numbers among these keys and groups, written as overrides."""
    found = {key: value for key, value in flatten({key: plain[key] for key in keys}).items() if type(value) is int}
    return [f"{key}={found[key]}" for key in sorted(found, key=lambda key: -found[key])[:2]]


def _readable(count: int) -> str:
    """Bytes as text, in the largest unit in which the number is at least 1."""
    units = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
    power = min((len(str(count)) - 1) // 3, len(units) - 1)
    return f"{count / 1000**power:.3g} {units[power]}"
