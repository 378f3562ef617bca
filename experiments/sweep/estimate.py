"""Estimates how long jobs take, from the time per step of finished runs of the same kind."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.sweep.plan import Job
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import DONE, read_status, run_folders
from experiments.tracking.strict_yaml import read_yaml

MOST_READ = 200  # at most this many finished runs are read


def seconds_each(jobs: Sequence[Job], runs: Path) -> list[float | None]:
    """The expected training time of each job, None if no finished run below `runs` is of its kind."""
    kinds = _seconds_per_step(runs)
    expected = []
    for job in jobs:
        found = kinds.get(_kind(job.plain)) if job.plain else None
        expected.append(None if found is None else statistics.median(found) * job.plain["max_steps"])
    return expected


def _seconds_per_step(runs: Path) -> dict[tuple[str, ...], list[float]]:
    kinds: dict[tuple[str, ...], list[float]] = {}
    if not runs.is_dir():
        return kinds
    read = 0
    for folder in run_folders(runs):
        try:
            status = read_status(folder)
            if status is None or status["status"] != DONE:
                continue
            plain = read_yaml(RunPaths(folder).config)
            kinds.setdefault(_kind(plain), []).append(float(status["seconds"]) / plain["max_steps"])
        except Exception:  # another program's folder, or a run that is being written
            continue
        read += 1
        if read == MOST_READ:
            break
    return kinds


def _kind(plain: dict[str, Any]) -> tuple[str, ...]:
    """The options and sizes that determine the time of a step."""
    groups = [str(plain[group]) for group in ("model", "data")]
    named = [str(plain[group]["_target_"]) for group in ("component", "strategy", "optimizer")]
    return (*groups, *named, *(str(plain[key]) for key in ("batch_size", "device", "precision", "threads")))
