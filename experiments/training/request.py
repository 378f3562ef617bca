"""`Request` says what to run and where, `Outcome` how the run ended."""

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

    - `search`: a folder; an interrupted run of the same configuration below it is resumed instead, if there is one;
    - `overrides`, `argv`: what the user typed;
    - `quiet`: writes the run's messages to its log only;
    - `hydra_files`: the files for `.hydra/`;
    - `watch`: receives each step's logged values, and may raise Pruned;
    - `options`: the chosen option of each group.
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
    """How a run ended: its folder and status, and its result or the reason why it has none."""

    folder: Path
    status: str
    result: Mapping[str, Any] | None = None
    reason: str | None = None
