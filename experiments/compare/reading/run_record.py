"""Reads one run folder for the comparison, and refuses a damaged one."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.compare.reading.run_files import (
    Unreadable,
    as_unreadable,
    comparable,
    read_environment,
    read_result,
)
from experiments.config.recorded import read_config
from experiments.config.settings import GROUPS
from experiments.tracking.flat_config import flatten
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import (
    DONE,
    FAILED,
    INTERRUPTED,
    NOT_APPLICABLE,
    RUNNING,
    is_alive,
    last_line,
    read_status,
)
from experiments.tracking.strict_json import number

STACKS = ("stacked", "compiled")  # engines that train several runs as one model
DIVERGED, CRASHED, UNFINISHED = "diverged", "crashed", "unfinished"
UNEXPLAINED = "failed"  # a table of runs does not say whether it diverged or crashed

_CONDITIONS = {"versions.torch", "threads", "device"}  # and the data's hashes, and the engine
CIRCUMSTANCES = ("git.commit", "versions.hardgrad", "versions.python", "versions.numpy", "platform", "cpu.model")


@dataclass(frozen=True)
class RunRecord:
    """A run: its configuration, its result and its circumstances. A value that the run does not record is None.

    - `path`: its folder, or its table and line
    - `options`: the chosen option of each group; `config`: the flat configuration without the seed
    - `outcome`: done, diverged, crashed, failed, unfinished or n/a; `reason`: why
    - `conditions`: what two runs must share to be a pair
    - `environment`: `env.json`, flat, with the CIRCUMSTANCES and without the command line
    - `command`: the command line without the keys that do not affect results; empty if it is not recorded
    - `best`, `last`: values by tag, at the best checkpoint and at the last step
    - `exact`: whether training had every op's own value and derivative, up to the choice at kinks and ties
    - `logged`: values by step and tag of a run from a table; None if they are in the run's folder
    """

    path: Path
    options: Mapping[str, str]
    config: Mapping[str, Any]
    seed: int
    config_hash: str
    outcome: str
    reason: str
    started: str
    seconds: float | None
    conditions: Mapping[str, Any]
    environment: Mapping[str, Any]
    command: str
    best: Mapping[str, float]
    last: Mapping[str, float]
    never_trained: tuple[str, ...]
    skipped_steps: int
    exact: bool | None
    parameters: int | None
    deciding_layers: tuple[str, ...] | None
    logged: Mapping[int, Mapping[str, float]] | None = None

    @property
    def has_folder(self) -> bool:
        """Whether the run has a folder, or is known from a table only."""
        return self.logged is None

    @property
    def shares_time(self) -> bool:
        """Whether its seconds are those of a whole stack of runs, trained as one model."""
        return self.conditions.get("engine") in STACKS

    @property
    def failed(self) -> bool:
        """Whether the run diverged or crashed."""
        return self.outcome in (DIVERGED, CRASHED, UNEXPLAINED)


def read_run(folder: str | Path) -> RunRecord:
    """Reads the record of a run folder.

    Raises Unreadable if the folder is not a run, or is damaged.
    """
    paths = RunPaths(folder)
    with as_unreadable(paths.status):
        status = read_status(paths.path)
        if status is None:
            raise Unreadable(f"no {paths.status.name}")
    with as_unreadable(paths.config):
        if not os.path.lexists(paths.config):
            raise Unreadable(f"no {paths.config.name}")
        nested, _ = read_config(paths, status)
        targets = {group: str(nested[group]["_target_"]) for group in GROUPS}
        flat = {
            key: comparable(value)
            for key, value in flatten(nested).items()
            if not key.rpartition(".")[2].startswith("_")
        }
        seed = flat.pop("seed")
        if not isinstance(seed, int):
            raise Unreadable(f"{paths.config.name} has seed {seed!r}, not a whole number")
    with as_unreadable(paths.result):
        result = read_result(paths, status)
        last = _numbers(result.get("metrics", {}))
        never_trained = (*map(str, result.get("never_trained", ())), *map(str, result.get("zero_gradient", ())))
        skipped_steps = int(result.get("skipped_steps", 0))
    with as_unreadable(paths.env):
        environment, command = read_environment(paths, status)
    # A run made without the command line records no names of options; the names of its modules replace them.
    options = {group: environment.pop(f"options.{group}", target.split(".")[-2]) for group, target in targets.items()}
    outcome, reason = _outcome(paths.path, status, last)
    return RunRecord(
        path=paths.path,
        options=options,
        config=flat,
        seed=seed,
        config_hash=str(status["config_hash"]),
        outcome=outcome,
        reason=reason,
        started=str(status.get("started")),
        seconds=number(status.get("seconds")),
        conditions=_conditions(environment, flat, str(result.get("engine", "unknown")), outcome),
        environment=environment,
        command=command,
        best=_numbers(result.get("best", {})),
        last=last,
        never_trained=never_trained,
        skipped_steps=skipped_steps,
        exact=_truth(result.get("exact")),
        parameters=_whole(result.get("parameters")),
        deciding_layers=_names(result.get("deciding_layers")),
    )


def _outcome(folder: Path, status: Mapping[str, Any], last: Mapping[str, float]) -> tuple[str, str]:
    name = status["status"]
    said = last_line(status)
    if name == DONE:
        bad = [tag for tag in ("loss/train", "loss/val") if not math.isfinite(last.get(tag, 0.0))]
        return (DIVERGED, f"{bad[0]} is {last[bad[0]]} at the end") if bad else ("done", "")
    if name == FAILED:
        return (DIVERGED if said.startswith("training diverged") else CRASHED), said or "no reason is recorded"
    if name == NOT_APPLICABLE:
        return "n/a", said
    running = name == RUNNING and is_alive(folder)
    return UNFINISHED, "still running" if running else said if name == INTERRUPTED and said else "interrupted"


def _conditions(environment: Mapping[str, Any], config: Mapping[str, Any], engine: str, outcome: str) -> dict[str, Any]:
    """Returns what results depend on besides the configuration; a finished run also records its engine."""
    kept = {k: value for k, value in environment.items() if k in _CONDITIONS or k.startswith("data_hashes.")}
    kept.setdefault("device", config.get("device"))
    return {**kept, "engine": engine} if outcome == "done" else kept


def _numbers(values: Any) -> dict[str, float]:
    if not isinstance(values, Mapping):
        return {}
    converted = {str(tag): number(value) for tag, value in values.items()}
    return {tag: value for tag, value in converted.items() if value is not None}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _names(values: Any) -> tuple[str, ...] | None:
    return tuple(map(str, values)) if isinstance(values, list) else None
