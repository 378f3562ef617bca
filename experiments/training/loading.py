"""Loads the trained model of a run, and its configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

from experiments.config.choices import Choices, ConfigError, choose
from experiments.config.recorded import read_config
from experiments.tracking import checkpoint
from experiments.tracking.checkpoint import CheckpointError
from experiments.tracking.run_errors import reason
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import read_status
from experiments.tracking.strict_json import DamagedFile
from experiments.training.build import build_model
from experiments.training.given import GivenModel, offer


def load(
    run: str | Path,
    which: Literal["best", "last"] = "best",
    device: str = "cpu",
    model: nn.Module | None = None,
) -> nn.Module:
    """Loads the trained model of a run folder, in evaluation mode: an ordinary nn.Module with hard ops.

    `which`: the checkpoint that was best on validation data, or the last one. `model`: the object that was trained, for
    a run whose model was given as an object; a copy of it gets the trained weights.
    Raises FileNotFoundError if the folder holds no run.
    Raises CheckpointError if the checkpoint is absent or does not fit.
    Raises EmptyCell if the run's pair was not applicable.
    Raises ConfigError if the configuration names a class of a module that is not imported.
    """
    if which not in ("best", "last"):
        raise ValueError(f"which must be 'best' or 'last', got {which!r}")
    paths = RunPaths(run)
    choices, digest = _choices_and_hash(paths)
    given = {} if model is None else {str(choices.model.keywords.get("digest")): model}
    with torch.random.fork_rng(devices=[]), offer(given, {}):
        built = build_model(choices)
    if which == "best":
        state = checkpoint.load_own(paths.best_checkpoint, digest, device)["model"]
    else:
        state = checkpoint.load_own(paths.last_checkpoint, digest, device)["trainer"]["model"]
    try:
        built.load_state_dict(state)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise CheckpointError(f"{paths.path} does not fit its {paths.config.name} or this code: {reason}") from None
    trained = built.module if isinstance(built, GivenModel) else built
    return trained.to(device).eval()


def choices_of(run: RunPaths) -> Choices:
    """Reads a run's configuration, for use on the CPU. Keys without effect get their defaults."""
    return _choices_and_hash(run)[0]


def _choices_and_hash(run: RunPaths) -> tuple[Choices, str]:
    if not os.path.lexists(run.config):
        raise FileNotFoundError(f"{run.path} holds no run: there is no {run.config.name}")
    try:
        plain, digest = read_config(run, read_status(run.path))
    except DamagedFile as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(f"{error.filename} cannot be read ({reason(error)})") from None
    config = OmegaConf.create(plain)
    if not isinstance(config.get("strategy"), DictConfig):
        raise ConfigError(f"{run.config} is not the configuration of a run")
    for key in [key for key, value in config.strategy.items() if value is None]:
        del config.strategy[key]
    config.device, config.loggers = "cpu", None
    config.engine = "auto"  # that of an earlier version may no longer exist
    return choose(config, may_import=False), digest
