"""Collects all runs of some folders and tables, each once, and notes what was left out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.compare.processes import Workers
from experiments.compare.reading.run_files import Unreadable
from experiments.compare.reading.run_record import RunRecord, read_run
from experiments.compare.reading.sweeps import Sweep, find_sweeps, runs_of
from experiments.compare.reading.table_lines import KINDS
from experiments.compare.reading.table_runs import read_table
from experiments.terminal.console import short_path
from experiments.tracking.run_paths import RunPaths


class NoRuns(Exception):
    """Raised if there is nothing to compare; the message names the folders."""


@dataclass
class Collection:
    """The runs by path, notes on what was left out or is damaged, and the sweeps that made the runs."""

    runs: list[RunRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)


def collect(roots: Iterable[str | Path], workers: Workers | None = None, sweeps: Sequence[int] = ()) -> Collection:
    """Reads every run of `roots`, folders or tables, or only those of the `sweeps` with these numbers.

    Of two runs with the same configuration and seed it keeps the finished one, else the newer one.
    Raises NoRuns if a folder does not exist, or if no folder holds a readable run.
    Raises NoSweep if a number is not that of a sweep.
    Raises WrongTable for a mistake in a table.
    """
    given = [Path(root) for root in roots]
    tables = [path.resolve() for path in given if path.suffix.lower() in KINDS and path.is_file()]
    folders = [path for path in given if path.resolve() not in tables]
    missing = [folder for folder in folders if not folder.is_dir()]
    if missing:
        wanted = f"give run folders, folders that hold them, or tables of runs ({', '.join(KINDS)})"
        raise NoRuns(f"there is no folder {missing[0]}; {wanted}")
    found = Collection([run for table in dict.fromkeys(tables) for run in read_table(table)])
    there = dict.fromkeys(folder.resolve() for root in folders for folder in _candidates(root, found.notes))
    for folder in (workers or Workers(most=1)).watch(there, len(there), "reading runs"):
        try:
            found.runs.append(read_run(folder))
        except Unreadable as error:
            found.notes.append(f"skipped {short_path(folder)}: {error}")
    found.sweeps = find_sweeps(found.runs)
    chosen = runs_of(found.runs, found.sweeps, sweeps)
    if len(chosen) < len(found.runs):
        found.notes.append(f"--sweep leaves out {len(found.runs) - len(chosen)} runs")
    found.runs = _each_once(chosen, found.notes)
    if not found.runs:
        skipped = "".join(f"\n  {note}" for note in found.notes[:10])
        raise NoRuns(f"found no run under {', '.join(map(str, given))}; a run folder has a status.json{skipped}")
    return found


def _candidates(root: Path, notes: list[str]) -> Iterator[Path]:
    """Yields folders that have a status file, and links to such folders; it does not look inside run folders."""
    names = RunPaths(root)
    for folder, folders, files in os.walk(root):
        is_run = names.status.name in files
        if not is_run and names.metrics.name in files:
            notes.append(f"skipped {short_path(Path(folder))}: it has {names.metrics.name}, but no {names.status.name}")
        folders[:] = [] if is_run else sorted(name for name in folders if name[0] != ".")
        links = (Path(folder, name) for name in folders if os.path.islink(os.path.join(folder, name)))
        yield from (link for link in links if (link / names.status.name).is_file())
        if is_run:
            yield Path(folder)


def _each_once(runs: list[RunRecord], notes: list[str]) -> list[RunRecord]:
    kept: dict[str, RunRecord] = {}
    for run in sorted(runs, key=lambda run: (run.outcome == "done", run.started)):
        earlier = kept.get(run.config_hash)
        if earlier is not None:
            notes.append(f"skipped {short_path(earlier.path)}: same configuration and seed as {short_path(run.path)}")
        kept[run.config_hash] = run
    return sorted(kept.values(), key=lambda run: run.path)
