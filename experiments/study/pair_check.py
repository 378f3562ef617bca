"""Checks the pairs of a study before anything runs, and finds which keys of the grids have an effect on each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.config.settings import GROUPS
from experiments.config.values import ConfigError
from experiments.study.stage import Caller, Stage
from experiments.study.study_file import Pair, Study
from experiments.study.trials import Grid, Point
from experiments.sweep.plan import REFUSED, Job
from experiments.tracking.flat_config import flatten
from experiments.tracking.run_status import NOT_APPLICABLE


@dataclass(frozen=True)
class CheckedPair:
    """A pair, the keys of the grids that have an effect on it, and one of its jobs."""

    pair: Pair
    keys: tuple[str, ...]
    job: Job

    @property
    def applies(self) -> bool:
        """Whether the component has the strategy's reading."""
        return self.job.state != NOT_APPLICABLE

    def point(self, grid: Grid, seeds: tuple[int, ...]) -> Point:
        """All trials of the pair in a grid."""
        return Point(self.pair, {key: grid[key] for key in self.keys}, seeds)


def check_pairs(study: Study, folder: Path, caller: Caller) -> list[CheckedPair]:
    """The pairs of a study; raises ConfigError for one that cannot run, or that repeats another."""
    first = {key: values[:1] for key, values in study.grids.items()}
    points = [Point(pair, first, study.choosing_seeds[:1]) for pair in study.pairs]
    jobs = [report.job for report in Stage(folder / "choosing-1", points, study.settings).plan(caller)]
    names = {job.folder: pair.name for job, pair in zip(reversed(jobs), reversed(study.pairs), strict=True)}
    checked = []
    for pair, job in zip(study.pairs, jobs, strict=True):
        if job.state == REFUSED:
            raise ConfigError(f"pair {pair.name}: {job.reason}")
        if job.same_as is not None:
            raise ConfigError(f"the pairs {names[job.same_as]} and {pair.name} are the same run")
        values = flatten(job.plain)
        keys = tuple(key for key in study.grids if key in GROUPS or values.get(key) is not None)
        checked.append(CheckedPair(pair, keys if job.state != NOT_APPLICABLE else (), job))
    if not any(one.applies for one in checked):
        raise ConfigError(f"no pair is applicable: {jobs[0].reason}")
    return checked
