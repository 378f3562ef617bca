"""What to run and where, and how it ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from experiments.training.record import Watch


@dataclasses.dataclass(frozen=True)
class Request:
    """A configuration to run, and the folder for it.

    `search` is the folder under which an interrupted run of the same configuration may be resumed instead; `overrides`
    and `argv` are what the user typed; `quiet` writes the run's messages to its log only; `hydra_files` go into
    `.hydra/`; `watch` receives the logged values of a step, and may raise Pruned; `options` are the names of the
    groups' options.
    """

    config: DictConfig
    folder: Path
    search: Path | None = None
    overrides: Sequence[str] = ()
    argv: Sequence[str] = ()
    quiet: bool = False
    hydra_files: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    watch: Watch | None = None
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended: its folder, its status, its result if it has one, and why it has none."""

    folder: Path
    status: str
    result: Mapping[str, Any] | None = None
    reason: str | None = None
