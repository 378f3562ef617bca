"""Counts how often an unlogged training step waits for the device, and how many kernels it starts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from experiments.config.choices import Choices, choose
from experiments.data import load
from experiments.stacked.trainer import StackedTrainer
from experiments.training.build import build_model, prepare
from experiments.training.trainer import Trainer

PAIRS = (
    ("quantized_activation", "ste"),
    ("floor", "smooth"),
    ("hard_gate", "gumbel"),
    ("hard_max", "rewrite"),
    ("quantized_activation", "dither"),
)
REPLICAS, STEPS = 8, 10


def steps(device: str, _: Path) -> Iterator[tuple[str, bool]]:
    """Yields one row for each pair and engine."""
    prepare(1, device)
    yield f"per unlogged step, mean of {STEPS}; stacks of {REPLICAS}\n", True
    yield "| pair | engine | waits | kernels |\n|---|---|---|---|", True
    for component, strategy in PAIRS:
        for engine in ("single", "stacked"):
            made = trainer(device, component, strategy, engine)
            for _ in range(3):
                made.advance()
            waits, kernels = count_waits(made, device), count_kernels(made, device)
            shown = "not measured" if waits is None else f"{waits:g}"
            yield f"| {component}, {strategy} | {engine} | {shown} | {kernels:g} |", not waits


def trainer(device: str, component: str, strategy: str, engine: str) -> Any:
    """Makes the trainer of a single run, or of a stack of runs with different learning rates."""
    if engine == "single":
        choices = choices_of(device, component, strategy, 0)
        data = load(choices.data).to(device)
        return Trainer(build_model(choices), choices.optimizer, choices.settings, data)
    some = [choices_of(device, component, strategy, seed) for seed in range(REPLICAS)]
    return StackedTrainer([build_model(own) for own in some], some, load(some[0].data).to(device))


def choices_of(device: str, component: str, strategy: str, seed: int) -> Choices:
    """Returns the configuration of a run that logs nothing after its first step."""
    import hydra

    from experiments.config import VERSION_BASE
    from experiments.config.folder_names import register_resolvers

    register_resolvers()
    long = ("max_steps=100000", "log_every=100000", "eval_every=100000", f"device={device}")
    own = (f"component={component}", f"strategy={strategy}", f"seed={seed}", f"optimizer.lr={0.01 * (1 + seed)}")
    with hydra.initialize_config_dir(str(Path(__file__).resolve().parents[1] / "conf"), version_base=VERSION_BASE):
        return choose(hydra.compose("config", [*long, *own]))


def count_waits(made: Any, device: str) -> float | None:
    """Counts the waits a step that torch warns of; None on the CPU, which has none."""
    if device == "cpu":
        return None
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(STEPS):
                made.advance()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in said) / STEPS


def count_kernels(made: Any, device: str) -> float:
    """Counts kernels a step; on the CPU operations, which are more."""
    cuda = device != "cpu"
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as found:
        for _ in range(STEPS):
            made.advance()
        if cuda:
            torch.cuda.synchronize(device)
    names = [event.name for event in found.events() if not event.name.startswith(("cuda", "Mem", "Profiler"))]
    return len(names) / STEPS
