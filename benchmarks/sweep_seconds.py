"""What a whole sweep takes, from one with fewer seeds that was run to its end.

Seconds of the sweep that ran, plus for every job it lacks the time between the ends of two jobs of the same strategy.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

STATUS = "status.json"


@dataclass(frozen=True)
class Size:
    """Strategies, seeds of each and steps."""

    strategies: tuple[str, ...]
    seeds: int
    steps: int

    @property
    def jobs(self) -> int:
        """All of them."""
        return len(self.strategies) * self.seeds

    @property
    def words(self) -> str:
        """As a row has it."""
        return f"{len(self.strategies)} x {self.seeds} runs of {self.steps} steps"


def seconds(line: Sequence[str], environment: dict[str, str], estimate: Callable[[Path, float], float]) -> float:
    """What `estimate` makes of the folder that a command has filled and of the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        done = subprocess.run(line, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
        took = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{' '.join(line)} ended with code {done.returncode}: {done.stderr[-2000:]}")
        return estimate(Path(folder), took)


def one_by_one(whole: Size, ran: Size) -> Callable[[Path, float], float]:
    """The estimate for a sweep whose jobs follow each other, strategy by strategy, two or more seeds of each."""

    def estimate(folder: Path, took: float) -> float:
        done = jobs(folder)
        groups = [done[start : start + ran.seeds] for start in range(0, len(done), ran.seeds)]
        for group in groups:
            job = (ended(group[-1]) - ended(group[0])) / (len(group) - 1)
            took += (whole.seeds - ran.seeds) * job
        return took

    return estimate


def jobs(folder: Path) -> list[Path]:
    """The folders of the jobs, of ours or of Lightning's script, in the order in which they ended."""
    files = [*folder.rglob(STATUS)] or [*folder.rglob("hparams.yaml")]
    return sorted((file.parent for file in files), key=ended)


def ended(job: Path) -> float:
    """When the last file of a job was written, in seconds."""
    return max(file.stat().st_mtime for file in job.rglob("*") if file.is_file())
