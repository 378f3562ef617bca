"""Builds the model of a checked configuration, and sets keys without effect to None."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import nn

from experiments.config.choices import Choices
from experiments.config.folder_names import override_key
from experiments.config.settings import Settings
from experiments.config.values import ConfigError, name_key, without_effect
from experiments.training.given import GivenModel
from experiments.training.initialise import initialise
from experiments.training.needs import require_memory
from surrogates import EmptyCell, hard_layers

# Keys of the strategy without effect if its op uses no temperature, or no kernel.
DEPENDENT = {"temperature": ("temperature", "schedule", "final_temperature", "clock", "gap"), "kernel": ("kernel",)}


def build_model(choices: Choices, training: bool = False) -> nn.Module:
    """Builds the chosen model with the chosen component, and draws its weights from the seed.

    `training`: whether the model will be trained, which takes more memory. Global generators do not change.
    Raises ConfigError if sizes do not fit together, or if this machine lacks the memory.
    Raises EmptyCell if the component's op lacks the strategy's reading.
    """
    try:
        require_memory(choices, training)
        return _model(choices)
    except (EmptyCell, ConfigError):
        raise
    except ValueError as error:
        raise ConfigError(name_key("component", choices.plain["component"], str(error))) from None
    except (RuntimeError, MemoryError, OverflowError) as error:  # torch raises these for a model that is too large
        raise ConfigError(f"the model cannot be built: {str(error).splitlines()[0]}") from None


def _model(choices: Choices) -> nn.Module:
    component = partial(choices.component, strategy=choices.strategy)
    data, settings = choices.data, choices.settings
    with torch.random.fork_rng(devices=[]):
        model: nn.Module = choices.model(input_shape=data.input_shape, classes=data.classes, component=component)
    if settings.batch_size == 1 and any(isinstance(m, nn.BatchNorm1d) for m in model.modules()):
        raise ValueError("batch_size=1 is too small for model.batch_norm=true, which needs two samples")
    if not isinstance(model, GivenModel):  # a given model keeps its weights
        initialise(model, settings.seed)
    return model.to(settings.device, floating(settings))


def trial_model(choices: Choices) -> nn.Module:
    """Builds the model on the CPU, in float32, for inspection: a process that has started CUDA cannot fork workers."""
    settings = dataclasses.replace(choices.settings, device="cpu", precision="float32")
    return build_model(dataclasses.replace(choices, settings=settings))


def floating(settings: Settings) -> torch.dtype:
    """The dtype of weights and data."""
    return torch.float64 if settings.precision == "float64" else torch.float32


def drop_unused_knobs(plain: dict[str, Any], model: nn.Module, overrides: Iterable[str]) -> list[str]:
    """Sets the strategy's keys without effect on this model to None; returns a note for each that the user typed."""
    return drop_knobs(plain, used_knobs(model), overrides)


def used_knobs(model: nn.Module) -> set[str]:
    """Those of `temperature` and `kernel` that affect an op of the model."""
    return {knob for layer in hard_layers(model).values() for knob in layer.strategy.uses(layer.op)}


def drop_knobs(plain: dict[str, Any], used: set[str], overrides: Iterable[str]) -> list[str]:
    """As `drop_unused_knobs`, from the result of `used_knobs`."""
    dropped = set()
    for knob in DEPENDENT.keys() - used:
        for key in DEPENDENT[knob]:
            if plain["strategy"].get(key) is not None:
                plain["strategy"][key] = None
                dropped.add(f"strategy.{key}")
    return without_effect(dropped & set(map(override_key, overrides)))


def prepare(threads: int, device: str) -> None:
    """Sets this process's number of threads, and determinism on CUDA.

    Raises ConfigError if the device is absent or lacks float64.
    """
    torch.set_num_threads(threads)
    try:
        cuda = torch.device(device).type == "cuda"
        if cuda:  # CUDA reads it when it starts; without it matrix products are not deterministic
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        float(torch.zeros((), device=device, dtype=torch.float64))
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0].partition(". ")[0] if str(error) else type(error).__name__
        raise ConfigError(f"device={device} cannot be used: {reason}; device=cpu always works") from None
    if cuda:
        torch.use_deterministic_algorithms(True, warn_only=True)
