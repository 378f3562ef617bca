"""Which runs came from which command, and the choice of some commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.compare.reading.run_record import RunRecord


class NoSweep(Exception):
    """There is no sweep of that number; the message lists those that there are."""


@dataclass(frozen=True)
class Sweep:
    """A command that made several runs; sweeps are numbered from 1 by the start of their first run."""

    number: int
    command: str
    runs: int

    def __str__(self) -> str:
        return f"sweep {self.number}, {self.runs} runs: {self.command}"


def find_sweeps(runs: Sequence[RunRecord]) -> list[Sweep]:
    """The commands that made more than one of these runs."""
    found: dict[str, int] = {}
    for run in sorted(runs, key=lambda run: run.started):
        found[run.command] = found.get(run.command, 0) + 1
    several = [(command, count) for command, count in found.items() if command and count > 1]
    return [Sweep(number, command, count) for number, (command, count) in enumerate(several, 1)]


def runs_of(runs: Sequence[RunRecord], sweeps: Sequence[Sweep], chosen: Sequence[int]) -> list[RunRecord]:
    """The runs of the chosen sweeps, or all if none is chosen; raises NoSweep for a number that there is not."""
    wrong = sorted(set(chosen) - {sweep.number for sweep in sweeps})
    if wrong:
        listed = "".join(f"\n  {sweep}" for sweep in sweeps) or " none: no command made more than one of these runs"
        raise NoSweep(f"there is no sweep {wrong[0]}; there are:{listed}")
    commands = {sweep.command for sweep in sweeps if sweep.number in chosen}
    return [run for run in runs if not chosen or run.command in commands]
