"""Reads the progress of a running sweep from its jobs' folders, whichever process or machine runs them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.sweep.plan import Job
from experiments.sweep.preview import duration
from experiments.tracking.regular_file import regular
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import DONE, FAILED, RUNNING, read_status
from experiments.tracking.strict_json import read_json

TAIL = 8192  # bytes of a metrics file that hold its last line


@dataclass
class SweepProgress:
    """The states of the jobs that the command runs; `look` updates them."""

    jobs: Sequence[Job]
    ended: dict[int, str] = field(default_factory=dict)  # status by job number
    running: dict[int, float] = field(default_factory=dict)  # share of steps done by job number
    since: float = field(default_factory=time.monotonic)
    _seen: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._left = list(self.jobs)
        for job in self.jobs:  # a status that an earlier command wrote is not reported
            self._seen[job.number] = _changed_at(job)

    def look(self) -> list[tuple[Job, dict[str, Any]]]:
        """Updates the states; returns the jobs that have ended since the last call, with their status."""
        news = []
        for job in self._left:
            changed = _changed_at(job)
            if changed != self._seen[job.number]:
                status = _status(job)
                if status is None:
                    continue
                self._seen[job.number] = changed
                if status["status"] == RUNNING:
                    self.running[job.number] = 0.0
                else:
                    news.append((job, status))
        for job, status in news:
            self.ended[job.number] = status["status"]
            self.running.pop(job.number, None)
        self._left = [job for job in self._left if job.number not in self.ended]
        for job in self._left:
            if job.number in self.running:
                self.running[job.number] = _share(job)
        return news

    @property
    def completed(self) -> float:
        """Finished jobs, and the finished parts of running ones."""
        return len(self.ended) + sum(self.running.values())

    def words(self) -> str:
        """Counts, throughput and time left, as text."""
        seconds = max(time.monotonic() - self.since, 1e-9)
        failed = sum(status == FAILED for status in self.ended.values())
        parts = [f"{len(self.running)} running", f"{failed} failed" if failed else ""]
        if self.completed:
            rate = self.completed / seconds
            per = f"{rate:.1f} jobs/s" if rate >= 1 else f"{rate * 60:.1f} jobs/min"
            parts += [per, f"{duration((len(self.jobs) - self.completed) / rate)} left"]
        return ", ".join(part for part in parts if part)


def news_line(job: Job, status: dict[str, Any], name: str) -> str:
    """One line about a job that has ended."""
    from experiments.terminal.summary import closing_line

    if status["status"] == DONE:
        try:
            return f"{name}: {closing_line(read_json(RunPaths(job.folder).result))}"
        except (OSError, ValueError, KeyError):
            return f"{name}: DONE"
    return f"{name}: {status['status']}"


def _changed_at(job: Job) -> int:
    try:
        return RunPaths(job.folder).status.stat().st_mtime_ns
    except OSError:
        return 0


def _status(job: Job) -> dict[str, Any] | None:
    try:
        status = read_status(job.folder)
    except (OSError, ValueError):
        return None
    return status if status is not None and status["config_hash"] == job.config_hash else None


def _share(job: Job) -> float:
    try:
        with open(RunPaths(job.folder).metrics, "rb", opener=regular) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
        return min(1.0, float(json.loads(last)["step"]) / float(job.plain["max_steps"]))
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0
