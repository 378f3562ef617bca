"""Reads the logged curves of a run; a damaged file is reported."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.compare.reading.run_record import RunRecord
from experiments.terminal.console import short_path
from experiments.tracking.regular_file import read_lines
from experiments.tracking.run_errors import reason
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import SEAL, check_sealed, read_status
from experiments.tracking.strict_json import DamagedFile

MOST_STEPS = 10**7  # a larger number is damaged


@dataclass
class RunCurves:
    """Steps and values (n,) by tag, float64 with NaN and infinities, and the faults of the file, in words."""

    curves: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def steps(self, tag: str) -> Any:
        """Steps at which a tag was logged."""
        return self.curves[tag][0] if tag in self.curves else np.zeros(0, dtype=np.int64)

    def values(self, tag: str) -> Any:
        """Values of a tag."""
        return self.curves[tag][1] if tag in self.curves else np.zeros(0)


def read_curves(run: RunRecord) -> RunCurves:
    """Reads the curves of a run. Damaged lines, steps out of order and missing steps become `problems`."""
    found = RunCurves()
    rows = _checked_rows(RunPaths(run.path), found.problems) if run.logged is None else run.logged
    collected: dict[str, tuple[list[int], list[float]]] = {}
    for step in sorted(rows):
        for tag, value in rows[step].items():
            steps, values = collected.setdefault(tag, ([], []))
            steps.append(step)
            values.append(value)
    found.curves = {
        tag: (np.array(s, dtype=np.int64), np.array(v, dtype=np.float64)) for tag, (s, v) in collected.items()
    }
    if run.has_folder:
        _check_steps(run, set(rows), found.problems)
    found.problems = [f"{short_path(run.path)}: {problem}" for problem in found.problems]
    return found


def _checked_rows(paths: RunPaths, problems: list[str]) -> dict[int, dict[str, float]]:
    """Returns the values by step and tag; none if the log cannot be read, or was changed after the run."""
    try:
        check_sealed(read_status(paths.path) or {SEAL: {}}, paths.metrics)
        return dict(_rows(paths.metrics, problems))
    except DamagedFile as error:
        problems.append(f"{error.path.name} {error.fault}; the curves of this run are left out")
    except OSError as error:
        problems.append(f"{paths.metrics.name} cannot be read ({reason(error)})")
    return {}


def _rows(path: Path, problems: list[str]) -> Iterator[tuple[int, dict[str, float]]]:
    """Yields step and values by tag of each line; the last line of a repeated step counts."""
    last = -1
    for index, line in enumerate(read_lines(path), start=1):
        if not line.endswith(b"\n"):
            problems.append(f"the last line of {path.name} is incomplete and is left out")
            return
        try:
            row = json.loads(line)
            step = _step(row.pop("step"))
            values = {tag: float(value) for tag, value in row.items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            problems.append(f"line {index} of {path.name} is damaged and is left out")
            continue
        if step <= last:
            problems.append(f"line {index} of {path.name} repeats step {step}, or is out of order")
        last = max(last, step)
        yield step, values


def _step(value: Any) -> int:
    """Raises ValueError or OverflowError for a number that is not a step."""
    step = int(value)
    if not 0 <= step <= MOST_STEPS:
        raise ValueError(f"no run has a step {step}")
    return step


def _check_steps(run: RunRecord, there: set[int], problems: list[str]) -> None:
    """Reports missing steps; an interrupted run logs the configured steps up to its last one."""
    if not there:
        problems += [] if problems else ["the log has no step"]
        return
    expected = expected_steps(run.config)
    if run.outcome != "done":
        expected = {step for step in expected if step <= max(there)}
    missing = sorted(expected - there)
    if missing:
        problems.append(
            f"SHORT: {len(missing)} of {len(expected)} steps are missing in the log, the first is step {missing[0]}"
        )


def expected_steps(config: Mapping[str, Any]) -> set[int]:
    """Lists the steps that a run logs: the first, the last, and every multiple of `log_every` and `eval_every`.

    Empty if the configuration is damaged.
    """
    try:
        last, *periods = (int(config[key]) for key in ("max_steps", "log_every", "eval_every"))
    except (KeyError, TypeError, ValueError, OverflowError):
        return set()
    if min(last, *periods) < 1 or last > MOST_STEPS:
        return set()
    return {1, last}.union(*(range(period, last + 1, period) for period in periods))
