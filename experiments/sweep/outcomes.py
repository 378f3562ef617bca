"""How the jobs of a sweep ended, by what their folders say; a job without a word there is listed too."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.sweep.plan import REFUSED, Job, last_line, status_now
from experiments.terminal.console import shown, table
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import DONE, FAILED, INTERRUPTED, NOT_APPLICABLE, RUNNING, read_status

NOT_STARTED = "NOT_STARTED"


@dataclass(frozen=True)
class Ended:
    """One job's end."""

    job: Job
    status: str
    reason: str = ""


def outcomes(jobs: Sequence[Job], errors: Mapping[Path, str]) -> list[Ended]:
    """How every job stands now; `errors` is what those said by folder that could not leave it there."""
    ended: list[Ended] = []
    first: dict[Path, Ended] = {}
    for job in jobs:
        twin = first.get(job.same_as) if job.same_as is not None else None
        one = _outcome(job, errors.get(job.folder)) if twin is None else Ended(job, twin.status, twin.reason)
        ended.append(one)
        first.setdefault(job.folder, one)
    return ended


def _outcome(job: Job, error: str | None) -> Ended:
    if job.state == REFUSED:
        return Ended(job, FAILED, job.reason)
    try:
        status = read_status(job.folder)
    except (OSError, ValueError) as unreadable:
        return Ended(job, FAILED, str(unreadable))
    if status is None or status["config_hash"] != job.config_hash:
        return Ended(job, FAILED, error) if error else Ended(job, NOT_STARTED)
    now = status_now(job.folder, status)
    last = last_line(status)
    if now == RUNNING:
        return Ended(job, RUNNING, "another process is at it")
    if now == INTERRUPTED:
        ended = "its process ended; the same command goes on from its checkpoint"
        return Ended(job, INTERRUPTED, error or last or ended)
    return Ended(job, FAILED, error) if error and now == DONE else Ended(job, now, last)


def print_report(ended: Sequence[Ended], stopped: bool) -> int:
    """Counts the jobs, lists those that did not end well, and gives the exit code.

    What is still to come is only counted where the sweep was `stopped`.
    """
    statuses = [one.status for one in ended]
    for one in ended:
        if one.status != DONE and not (stopped and one.status in (NOT_STARTED, INTERRUPTED)):
            print(table(_rows(one)), file=sys.stderr)
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
    print(f"\n{counts}")
    return int(any(status not in (DONE, NOT_APPLICABLE) for status in statuses))


def _rows(ended: Ended) -> list[tuple[str, str]]:
    rows = [(ended.status, shown(ended.job.folder))]
    if ended.status != NOT_APPLICABLE:
        rows.append(("", shlex.join(ended.job.overrides)))
    if ended.reason:
        rows.append(("", ended.reason))
    log = RunPaths(ended.job.folder).log
    if ended.status == FAILED and log.exists():
        rows.append(("", f"more in {shown(log)}"))
    return rows
