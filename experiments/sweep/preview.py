"""What `dry_run=true` prints: every job, its folder and hash, how it would run and how long. Nothing is written."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from experiments.sweep.estimate import seconds_each
from experiments.sweep.manifest import path_in
from experiments.sweep.plan import NEW, REFUSED, Job
from experiments.terminal.console import short_path
from experiments.tracking.run_status import FAILED, INTERRUPTED, RUNNING


def preview(root: Path, jobs: Sequence[Job], engine: str, at_a_time: int) -> str:
    """Two lines for each job, with the number of its stackable group, and the totals."""
    groups = list(dict.fromkeys(job.group for job in jobs if job.group is not None))
    width = len(str(max(len(jobs) - 1, 0)))
    lines = [f"root    {short_path(root)}", f"engine  {engine}", ""]
    for job in jobs:
        group = f"group {groups.index(job.group)}" if job.group is not None else "no group"
        lines.append(f"{job.number:>{width}}  {job.config_hash or '-' * 16}  {group}  {intention(job)}")
        lines.append(f"{'':>{width}}  {path_in(root, job.folder)}")
    lines += ["", _sums(jobs, root, at_a_time)]
    return "\n".join(lines)


def preview_one(job: Job) -> str:
    """What the command would do with a single run."""
    return f"{job.config_hash}  {intention(job)}\n{short_path(job.folder)}\n{_sums([job], job.folder.parent, 1)}"


def intention(job: Job) -> str:
    """What the command would do with a job."""
    if job.same_as is not None:
        return f"skip: the same run as {job.same_as.name}"
    if job.state == REFUSED:
        return f"cannot run: {job.reason}"
    if job.runs():
        return {NEW: "run", INTERRUPTED: "resume"}.get(job.state, f"run again: {job.state}")
    more = {FAILED: " (retry=failed runs it again)", RUNNING: " elsewhere"}.get(job.state, "")
    return f"skip: {job.state}{more}"


def _sums(jobs: Sequence[Job], root: Path, at_a_time: int) -> str:
    due = [job for job in jobs if job.runs()]
    told = f"{len(due)} of {len(jobs)} jobs to run, {at_a_time} at a time"
    times = [seconds for seconds in seconds_each(due, root.parent) if seconds is not None]
    if not due:
        return told
    if not times:
        return f"{told}; time unknown: no similar run has finished under {short_path(root.parent)}"
    whole = statistics.fmean(times) * len(due) / at_a_time
    missing = len(due) - len(times)
    guessed = f", without similar runs for {missing} of them" if missing else ""
    return f"{told}; about {duration(whole)}{guessed}"


def duration(seconds: float) -> str:
    """1:02:03, or 2:03 below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
