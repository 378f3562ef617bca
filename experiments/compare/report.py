"""The content of a report, before it becomes text, a page or tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.compare.explaining.evidence import Evidence, gather
from experiments.compare.processes import Workers
from experiments.compare.reading.collection import NoRuns, collect
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.reading.sweeps import Sweep
from experiments.compare.statistics.blocks import TUNED, blocks
from experiments.compare.statistics.budgets import Budgets, budgets
from experiments.compare.statistics.comparison import compare
from experiments.compare.statistics.results import Question, Result
from experiments.config.settings import GROUPS
from experiments.plotting import Look, looks

NOT_SET = "not set"  # a value of a key that is null


@dataclass(frozen=True)
class Section:
    """One block: its result, its budgets, and the evidence by variant."""

    result: Result
    evidence: dict[str, Evidence]
    budgets: Budgets

    @property
    def name(self) -> str:
        """Name of the block."""
        return self.result.block.name

    @property
    def variants(self) -> list[tuple[str, str]]:
        """Strategy and name of every variant."""
        return [(choice.variant.strategy, choice.variant.name) for choice in self.result.choices]


@dataclass(frozen=True)
class ComparisonReport:
    """All blocks, all runs, and notes about them.

    `roots`: the folders that were read. `sweeps`: all commands that made several of the runs there, chosen or not.
    """

    roots: Sequence[Path]
    question: Question
    tuned: Sequence[str]
    sections: list[Section]
    runs: list[RunRecord]
    sweeps: list[Sweep]
    notes: list[str]

    @property
    def looks(self) -> dict[str, Look]:
        """The look of every variant by name, the same in all blocks."""
        return looks(dict.fromkeys(variant for section in self.sections for variant in section.variants))

    @property
    def from_several(self) -> bool:
        """Whether the runs come from several commands, one of which made several runs."""
        return bool(self.sweeps) and len({run.command for run in self.runs if run.command}) > 1

    @property
    def failed(self) -> list[RunRecord]:
        """Runs without a result: diverged, crashed or unfinished."""
        return [run for run in self.runs if run.outcome not in ("done", "n/a")]


def make(
    roots: Iterable[str | Path],
    question: Question | None = None,
    tuned: Sequence[str] = TUNED,
    workers: Workers | None = None,
    sweeps: Sequence[int] = (),
) -> ComparisonReport:
    """Reads and compares all runs under `roots`, or only those of the `sweeps` with these numbers.

    `workers` share the reading. Without them this process does all of it, so any script or notebook may call it.
    Raises NoRuns if there is nothing to compare.
    Raises NoSweep if a number is not that of a sweep.
    Raises WrongMetric if no finished run has the metric.
    Raises WrongTable for a mistake in a table.
    """
    workers = workers or Workers(most=1)
    question, folders = question or Question(), [Path(root) for root in roots]
    found = collect(folders, workers, sweeps)
    question.metric.refuse_unknown(found.runs)
    results = compare(blocks(found.runs, tuned, found.notes), question)
    if not results:
        raise NoRuns("all runs are NOT_APPLICABLE: these components have none of these strategies")
    evidence = gather(results, workers)
    sections = [Section(result, seen, budgets(result)) for result, seen in zip(results, evidence, strict=True)]
    problems = [problem for seen in evidence for variant in seen.values() for problem in variant.problems]
    return ComparisonReport(folders, question, tuned, sections, found.runs, found.sweeps, found.notes + problems)


def environment(runs: Sequence[RunRecord]) -> dict[str, list[str]]:
    """Lists the different values of each key of `env.json`; a single value is common to all runs."""
    keys = dict.fromkeys(key for run in runs for key in run.environment)
    return {
        key: list(dict.fromkeys(str(run.environment[key]) for run in runs if key in run.environment)) for key in keys
    }


def varied_keys(runs: Sequence[RunRecord]) -> dict[str, list[str]]:
    """Lists the configured keys whose values differ between runs, with these values."""
    return {key: found for key, found in _values(runs).items() if len(found) > 1}


def shared_keys(runs: Sequence[RunRecord]) -> dict[str, list[str]]:
    """Lists the configured keys whose value is the same in all runs that have the key, with this value."""
    return {key: found for key, found in _values(runs).items() if len(found) == 1}


def _values(runs: Sequence[RunRecord]) -> dict[str, list[str]]:
    keys = dict.fromkeys(key for run in runs for key in run.config)
    values = {key: dict.fromkeys(run.config[key] for run in runs if key in run.config) for key in keys}
    return {key: [NOT_SET if value is None else str(value) for value in found] for key, found in values.items()}


def row(run: RunRecord, columns: Sequence[str]) -> dict[str, Any]:
    """Returns a run as a row of a table: folder, options, seed, outcome, and the values of the keys `columns`."""
    known: dict[str, Any] = {"run": str(run.path), **{group: run.options[group] for group in GROUPS}, "seed": run.seed}
    known |= {"outcome": run.outcome, "reason": run.reason, "seconds": run.seconds}
    return known | {key: run.config.get(key) for key in columns}
