"""How the jobs of a sweep ended, read from their folders."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.sweep.ending import Elsewhere
from experiments.sweep.plan import REFUSED, Job, status_now
from experiments.terminal.console import short_path, table
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import DONE, FAILED, INTERRUPTED, NOT_APPLICABLE, RUNNING, last_line, read_status

NOT_STARTED = "NOT_STARTED"
ELSEWHERE = "another command runs this job; run the same command later to see how it ended"
UNFINISHED_ELSEWHERE = 3  # exit code: no job failed, but other commands still run some


@dataclass(frozen=True)
class JobReport:
    """How one job ended."""

    job: Job
    status: str
    reason: str = ""


def outcomes(jobs: Sequence[Job], errors: Mapping[Path, Exception]) -> list[JobReport]:
    """How every job ended; `errors` has, by folder, the errors that no run folder records."""
    ended: list[JobReport] = []
    first: dict[Path, JobReport] = {}
    for job in jobs:
        twin = first.get(job.same_as) if job.same_as is not None else None
        one = _outcome(job, errors.get(job.folder)) if twin is None else JobReport(job, twin.status, twin.reason)
        ended.append(one)
        first.setdefault(job.folder, one)
    return ended


def _outcome(job: Job, raised: Exception | None) -> JobReport:
    if job.state == REFUSED:
        return JobReport(job, FAILED, job.reason)
    error = None if raised is None or isinstance(raised, Elsewhere) else str(raised)
    try:
        status = read_status(job.folder)
    except (OSError, ValueError) as unreadable:
        return JobReport(job, FAILED, str(unreadable))
    if status is None or status["config_hash"] != job.config_hash:
        if raised is not None and error is None:  # another process has just taken the folder
            return JobReport(job, RUNNING, ELSEWHERE)
        return JobReport(job, FAILED, error) if error else JobReport(job, NOT_STARTED)
    now = status_now(job.folder, status)
    last = last_line(status)
    if now == RUNNING:
        return JobReport(job, RUNNING, ELSEWHERE)
    if now == INTERRUPTED:
        ended = "its process ended; the same command resumes it from its checkpoint"
        return JobReport(job, INTERRUPTED, error or last or ended)
    return JobReport(job, FAILED, error) if error and now == DONE else JobReport(job, now, last)


def print_report(ended: Sequence[JobReport], stopped: bool, closing: str = "") -> int:
    """Prints the jobs that did not end well, the `closing` lines, and the counts; returns the exit code.

    If the sweep was `stopped`, interrupted jobs and jobs that did not start are only counted.
    """
    statuses = [one.status for one in ended]
    for one in ended:
        if one.status != DONE and not (stopped and one.status in (NOT_STARTED, INTERRUPTED)):
            print(table(_rows(one)), file=sys.stderr)
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
    print("\n".join(["", *([closing, ""] if closing else []), counts]))
    if any(status not in (DONE, NOT_APPLICABLE, RUNNING) for status in statuses):
        return 1
    return UNFINISHED_ELSEWHERE if RUNNING in statuses else 0


def _rows(ended: JobReport) -> list[tuple[str, str]]:
    rows = [(ended.status, short_path(ended.job.folder))]
    if ended.status != NOT_APPLICABLE:
        rows.append(("", shlex.join(ended.job.overrides)))
    if ended.reason:
        rows.append(("", ended.reason))
    log = RunPaths(ended.job.folder).log
    if ended.status == FAILED and log.exists():
        rows.append(("", f"more in {short_path(log)}"))
    return rows
