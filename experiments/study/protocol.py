"""The protocol of a study: choose on validation data, extend the grids, report at the chosen values.

The state of a study is in its run folders: the same command reads it and continues.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.config.values import ConfigError
from experiments.study.choice import Choice, choose
from experiments.study.pair_check import CheckedPair, check_pairs
from experiments.study.stage import Caller, Stage, TrialRun, due
from experiments.study.study_file import Study
from experiments.study.time_needed import expected_seconds, measure_speeds
from experiments.study.trials import Point, extend, extend_scales, keys_at_edge, new_points
from experiments.sweep.outcomes import JobReport
from experiments.sweep.plan import REFUSED
from experiments.sweep.preview import duration
from experiments.terminal.console import short_path

Grids = dict[str, tuple[Any, ...]]


class PlannedOnly(Exception):
    """Raised under `dry_run` at the first stage with missing runs, because the next stages depend on them."""


@dataclass
class Protocol:
    """A study in a folder. `pairs`, `stages`, `grids`, `choices` and the runs grow in `advance`.

    - `tried`: the runs of the choosing stages; `reported`: those of the reporting stage
    - `grids`: the grids of the file, then those after each extension
    - `limit`: why grids were not extended further; empty if no best value lies at an edge
    """

    study: Study
    folder: Path
    caller: Caller
    dry_run: bool = False
    pairs: list[CheckedPair] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    grids: list[Grids] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    tried: list[TrialRun] = field(default_factory=list)
    reported: list[TrialRun] = field(default_factory=list)
    limit: str = ""

    def advance(self, begin: Callable[[], None]) -> None:
        """Runs the missing jobs of every stage; calls `begin` before the first run.

        Raises Unfinished if a run has no score.
        Raises PlannedOnly under `dry_run` at the first stage with missing jobs.
        Raises ConfigError if a pair cannot run, or if the budget is too small.
        """
        study = self.study
        self.pairs = check_pairs(study, self.folder, self.caller)
        self.grids = [dict(study.grids)]
        first = self._stage("choosing-1", [pair.point(study.grids, study.choosing_seeds) for pair in self._applicable])
        planned = _require_runnable(self._plan(first))
        self._check_budget(len(planned))
        self._say_time(planned)
        if not self.dry_run:
            begin()
        self.tried = self._finish(first, planned)
        self.choices = choose(self.tried)
        while (extension := self._extension()) is not None:
            self.tried += self._finish(*extension)
            self.choices = choose(self.tried)
        for choice in self.choices:
            print(f"chosen for {choice}")
        reporting = self._reporting({choice.pair: choice.trial for choice in self.choices})
        self.reported = self._finish(reporting, _require_runnable(self._plan(reporting)))

    @property
    def _applicable(self) -> list[CheckedPair]:
        return [pair for pair in self.pairs if pair.applies]

    def _stage(self, name: str, points: Sequence[Point], more: Sequence[str] = ()) -> Stage:
        return Stage(self.folder / name, points, (*self.study.settings, *more))

    def _plan(self, stage: Stage) -> list[JobReport]:
        return stage.plan(self.caller, quiet=not self.dry_run)

    def _reporting(self, chosen: Any) -> Stage:
        """The reporting stage: all pairs at their chosen values, also those that are not applicable."""
        fixed = [(one.pair, {key: (value,) for key, value in chosen.get(one.pair, {}).items()}) for one in self.pairs]
        points = [Point(pair, grid, self.study.reporting_seeds) for pair, grid in fixed]
        return self._stage("reporting", points, self.study.reporting_settings)

    def _extension(self) -> tuple[Stage, list[JobReport]] | None:
        """The stage of the next longer grids, planned; None if no best value lies at an edge, or at a limit."""
        old = self.grids[-1]
        keys = keys_at_edge(old, [choice.trial for choice in self.choices])
        if not keys:
            return None
        new = extend(old, keys)
        seeds = self.study.choosing_seeds
        points = [point for pair in self._applicable for point in new_points(pair.point(new, seeds), old)]
        stage = self._stage(f"choosing-{len(self.grids) + 1}", points)
        planned = self._plan(stage) if len(self.grids) <= self.study.extensions else []
        self.limit = self._limit(planned)
        if self.limit:
            print(f"the best {', '.join(keys)} of a pair lies at an edge, but the grid is not extended: {self.limit}")
            return None
        print(f"the best {', '.join(keys)} of a pair lies at an edge: the grid of all pairs is extended")
        self.grids.append(new)
        return stage, planned

    def _limit(self, planned: Sequence[JobReport]) -> str:
        if not planned:
            return f"budget.extensions is {self.study.extensions}"
        refused = [report.reason for report in planned if report.job.state == REFUSED]
        listed = sum(1 for stage in self.stages for point in stage.points for _ in point.jobs())
        over = listed + len(planned) + self._reporting_runs > self.study.runs
        return refused[0] if refused else f"budget.runs is {self.study.runs}" if over else ""

    @property
    def _reporting_runs(self) -> int:
        return len(self._applicable) * len(self.study.reporting_seeds)

    def _check_budget(self, choosing: int) -> None:
        needed = choosing + self._reporting_runs
        if needed > self.study.runs:
            raise ConfigError(f"the study needs {needed} runs without extensions; budget.runs is {self.study.runs}")

    def _say_time(self, choosing: Sequence[JobReport]) -> None:
        """Prints the expected time before the first run; later the sweeps show the time that is left."""
        if len(due(choosing)) < len(choosing):
            return
        trial = {one.pair: {key: self.study.grids[key][0] for key in one.keys} for one in self._applicable}
        stages = due(choosing), due(self._reporting(trial).plan(self.caller))
        speeds = measure_speeds(stages[0], self.caller)
        later = measure_speeds(stages[1], self.caller) if self.study.reporting_settings else speeds
        options = self.caller.options
        parts = [expected_seconds(jobs, own, options) for jobs, own in zip(stages, (speeds, later), strict=True)]
        named = f"choosing {duration(parts[0])}, reporting {duration(parts[1])}, together {duration(sum(parts))}"
        longest = parts[0] * self._growth(len(stages[0])) + parts[1]
        print(f"expected time: {named}; with extensions of grids at most {duration(longest)}", flush=True)

    def _growth(self, choosing: int) -> float:
        """The most choosing jobs with all extensions that the budget allows, divided by those without extensions."""
        grids = [self.grids[0]]
        for _ in range(self.study.extensions):
            grids.append(extend_scales(grids[-1]))
        trials = [sum(math.prod(len(grid[key]) for key in pair.keys) for pair in self._applicable) for grid in grids]
        return min(trials[-1] / trials[0], (self.study.runs - self._reporting_runs) / choosing)

    def _finish(self, stage: Stage, planned: Sequence[JobReport]) -> list[TrialRun]:
        """Runs the missing jobs of a stage, and returns all its runs."""
        missing = due(planned)
        print(f"{stage.name}: {len(planned)} jobs in {short_path(stage.folder)}, {len(missing)} to run", flush=True)
        self.stages.append(stage)
        if missing and self.dry_run:
            raise PlannedOnly
        return stage.trial_runs(stage.run(self.caller) if missing else planned)


def _require_runnable(planned: list[JobReport]) -> list[JobReport]:
    """The jobs; raises ConfigError if one cannot run."""
    for report in planned:
        if report.job.state == REFUSED:
            raise ConfigError(f"{' '.join(report.job.overrides)}: {report.reason}")
    return planned
