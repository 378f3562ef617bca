"""One stage of a study: a sweep in a folder of its own, and the runs that it made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.command.in_python import ONE_RUN, SWEEPER, call_command
from experiments.compare.reading.collection import collect
from experiments.compare.reading.run_record import DIVERGED, RunRecord
from experiments.study.study_file import Pair
from experiments.study.trials import Point, Trial
from experiments.sweep.listing import as_typed
from experiments.sweep.outcomes import UNFINISHED_ELSEWHERE, JobReport
from experiments.sweep.plan import Job
from experiments.tracking.run_status import DONE, FAILED, NOT_APPLICABLE, RUNNING


class Unfinished(Exception):
    """Runs of a stage have no score, so the next stage cannot begin; `code` is the command's exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Caller:
    """How the study calls the training command: overrides that say how runs are carried out, and what was typed."""

    options: Sequence[str] = ()
    typed: Sequence[str] = ()
    config_dir: Path | None = None

    def sweep(self, arguments: Sequence[str], quiet: bool) -> list[JobReport]:
        """Runs a sweep in this process, or plans it with `dry_run=true`; its jobs, in their order."""
        task = call_command("study", ["-m", *self._own(), *self.options, *arguments], SWEEPER, quiet, self.typed)
        return [] if task.reports is None else task.reports[1]

    def train(self, arguments: Sequence[str]) -> None:
        """Trains one run."""
        call_command("study", [*self._own(), *arguments], ONE_RUN, True, self.typed)

    def _own(self) -> list[str]:
        return [] if self.config_dir is None else ["--config-dir", str(self.config_dir)]


@dataclass(frozen=True)
class TrialRun:
    """A run with the pair and the trial that it belongs to."""

    pair: Pair
    trial: Trial
    run: RunRecord


@dataclass(frozen=True)
class Stage:
    """The points of a stage, the overrides of all its runs, and its folder, whose name is the stage's."""

    folder: Path
    points: Sequence[Point]
    settings: Sequence[str]

    @property
    def name(self) -> str:
        """`choosing-1`, `choosing-2`, ..., `reporting`."""
        return self.folder.name

    def plan(self, caller: Caller, quiet: bool = True) -> list[JobReport]:
        """Its jobs and how far each is; nothing runs."""
        return caller.sweep([*self._arguments(), "dry_run=true"], quiet)

    def run(self, caller: Caller) -> list[JobReport]:
        """Runs what is missing; how its jobs ended."""
        return caller.sweep(self._arguments(), quiet=False)

    def _arguments(self) -> list[str]:
        points = ", ".join(point.text(self.settings) for point in self.points)
        return [f"hydra.sweep.dir={as_typed(str(self.folder))}", f"hydra.sweeper.points=[{points}]"]

    def trial_runs(self, reports: Sequence[JobReport]) -> list[TrialRun]:
        """The runs of the stage's jobs, without those that are not applicable.

        Raises Unfinished if a run has no score. A run that diverged has one: that of a guess.
        """
        jobs = zip((job for point in self.points for job in point.jobs()), reports, strict=True)
        applicable = [(*job, report) for job, report in jobs if report.job.state != NOT_APPLICABLE]
        self._refuse_unfinished([report.status for *_, report in applicable])
        by_hash = {run.config_hash: run for run in collect([self.folder]).runs}
        runs = [TrialRun(pair, trial, by_hash[str(one.job.config_hash)]) for pair, trial, one in applicable]
        crashed = [one.run for one in runs if one.run.outcome not in ("done", DIVERGED)]
        if crashed:
            counted = f"{self.name}: {len(crashed)} of {len(runs)} runs crashed ({crashed[0].reason})"
            raise Unfinished(f"{counted}; the same command with retry=failed runs failed ones again", 1)
        return runs

    def _refuse_unfinished(self, statuses: Sequence[str]) -> None:
        left = [status for status in statuses if status not in (DONE, FAILED)]
        if left:
            counted = ", ".join(f"{left.count(status)} {status}" for status in dict.fromkeys(left))
            code = UNFINISHED_ELSEWHERE if set(left) == {RUNNING} else 1
            raise Unfinished(f"{self.name}: {counted}; the same command resumes the study", code)


def due(planned: Sequence[JobReport]) -> list[Job]:
    """The jobs that have to run, or that another process may be running."""
    return [report.job for report in planned if report.job.runs() or report.status == RUNNING]
