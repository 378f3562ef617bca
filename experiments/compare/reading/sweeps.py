"""Finds which command made which runs, and chooses runs by command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.compare.reading.run_record import RunRecord


class NoSweep(Exception):
    """Raised if no sweep has the number; the message lists the sweeps."""


@dataclass(frozen=True)
class Sweep:
    """A command that made several runs; sweeps are numbered from 1, in the order of their first runs."""

    number: int
    command: str
    runs: int

    def __str__(self) -> str:
        return f"sweep {self.number}, {self.runs} runs: {self.command}"


def find_sweeps(runs: Sequence[RunRecord]) -> list[Sweep]:
    """Lists the commands that made more than one of these runs."""
    found: dict[str, int] = {}
    for run in sorted(runs, key=lambda run: run.started):
        found[run.command] = found.get(run.command, 0) + 1
    several = [(command, count) for command, count in found.items() if command and count > 1]
    return [Sweep(number, command, count) for number, (command, count) in enumerate(several, 1)]


def runs_of(runs: Sequence[RunRecord], sweeps: Sequence[Sweep], chosen: Sequence[int]) -> list[RunRecord]:
    """Returns the runs of the chosen sweeps, or all runs if none is chosen.

    Raises NoSweep if a number is not that of a sweep.
    """
    wrong = sorted(set(chosen) - {sweep.number for sweep in sweeps})
    if wrong:
        listed = "".join(f"\n  {sweep}" for sweep in sweeps) or "\n  none; no command made several of these runs"
        raise NoSweep(f"there is no sweep {wrong[0]}; the sweeps are:{listed}")
    commands = {sweep.command for sweep in sweeps if sweep.number in chosen}
    return [run for run in runs if not chosen or run.command in commands]
