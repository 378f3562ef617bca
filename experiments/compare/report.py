"""Everything that a report says, before it is put into any form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.compare.explaining.evidence import Evidence, gather
from experiments.compare.processes import Workers
from experiments.compare.reading.collecting import NoRuns, collect
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.statistics.blocks import TUNED, blocks
from experiments.compare.statistics.budgets import Budgets, budgets
from experiments.compare.statistics.comparing import Question, Result, compare


@dataclass(frozen=True)
class Section:
    """One block: its result, and the evidence and budgets by arm."""

    result: Result
    evidence: dict[str, Evidence]
    budgets: Budgets

    @property
    def name(self) -> str:
        """The block's name."""
        return self.result.block.name

    @property
    def arms(self) -> list[tuple[str, str]]:
        """Strategy and name of every arm."""
        return [(choice.arm.strategy, choice.arm.name) for choice in self.result.choices]


@dataclass(frozen=True)
class Report:
    """All blocks, all runs, and what a reader must know about them; `roots` are what was asked for."""

    roots: Sequence[Path]
    question: Question
    tuned: Sequence[str]
    sections: list[Section]
    runs: list[RunRecord]
    notes: list[str]

    @property
    def failed(self) -> list[RunRecord]:
        """Runs that are over or were given up without a result."""
        return [run for run in self.runs if run.outcome not in ("done", "n/a")]


def make(
    roots: Iterable[str | Path],
    question: Question | None = None,
    tuned: Sequence[str] = TUNED,
    workers: Workers | None = None,
) -> Report:
    """Reads and compares all runs under `roots`; raises NoRuns or WrongMetric.

    `workers` share in the reading; without them this process does all of it, and any script or notebook may call it.
    """
    workers = workers or Workers(most=1)
    question, folders = question or Question(), [Path(root) for root in roots]
    found = collect(folders, workers.watch)
    results = [compare(block, question) for block in blocks(found.runs, tuned, found.notes)]
    if not results:
        raise NoRuns("all runs are NOT_APPLICABLE: these strategies do not exist for these components")
    evidence = gather(results, workers)
    sections = [Section(result, seen, budgets(result)) for result, seen in zip(results, evidence, strict=True)]
    problems = [problem for seen in evidence for arm in seen.values() for problem in arm.problems]
    return Report(folders, question, tuned, sections, found.runs, found.notes + problems)


def environment(runs: Sequence[RunRecord]) -> dict[str, list[str]]:
    """What `env.json` says, by key, each value once; a single value is common to all runs."""
    keys = dict.fromkeys(key for run in runs for key in run.environment)
    return {
        key: list(dict.fromkeys(str(run.environment[key]) for run in runs if key in run.environment)) for key in keys
    }


def varied(runs: Sequence[RunRecord]) -> dict[str, list[str]]:
    """The configured keys that are not the same in all runs that have them, with their values."""
    keys = dict.fromkeys(key for run in runs for key in run.config)
    values = {key: dict.fromkeys(run.config[key] for run in runs if key in run.config) for key in keys}
    return {key: [str(value) for value in found] for key, found in values.items() if len(found) > 1}
