"""How long the stages of a study will take: the arithmetic of their runs at this machine's speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.compare.reading.run_record import CRASHED, read_run
from experiments.config.folder_names import override_key
from experiments.config.values import ConfigError
from experiments.study.stage import Caller
from experiments.sweep.arrange import arrange
from experiments.sweep.capacity import cores
from experiments.sweep.listing import as_typed
from experiments.sweep.plan import Job

STEPS = 50  # of the run that is timed
LENGTH = ("max_steps", "eval_every")


@dataclass(frozen=True)
class Speed:
    """Seconds of a run without its steps, and of one multiplication and addition of a step."""

    run: float
    operation: float


def measure_speeds(jobs: Sequence[Job], caller: Caller) -> dict[str, Speed]:
    """The speed of the first job of each component; raises ConfigError if a short run of one crashes."""
    _time(jobs[0], 1, caller)  # reads the data
    first = {_component(job): job for job in reversed(jobs)}
    return {component: _measure(job, caller) for component, job in first.items()}


def expected_seconds(jobs: Sequence[Job], speeds: Mapping[str, Speed], options: Sequence[str]) -> float:
    """The time of the jobs with the stacks and processes that the command's options ask for."""
    chosen = dict(option.split("=", 1) for option in options)
    launcher = chosen.get("hydra/launcher", "basic")
    threads = max(int(job.plain["threads"]) for job in jobs)
    workers = 1 if launcher == "basic" else int(chosen.get("workers", max(1, cores() // threads)))
    stacked = launcher == "stacked" or (launcher != "basic" and chosen.get("engine") == "stacked")
    units = arrange(jobs, workers, []) if stacked else [unit for job in jobs for unit in arrange([job], 1, [])]
    steps = sum(unit.work * speeds[_component(unit.jobs[0])].operation for unit in units)
    return (steps + sum(speeds[_component(job)].run for job in jobs)) / workers


def _component(job: Job) -> str:
    return str(job.plain["component"]["_target_"])


def _measure(job: Job, caller: Caller) -> Speed:
    short, long = (_time(job, steps, caller) for steps in (1, 1 + STEPS))
    (unit,) = arrange([job], 1, [])
    operations = unit.work / int(job.plain["max_steps"])
    return Speed(short, max(long - short, 0.0) / STEPS / operations)


def _time(job: Job, steps: int, caller: Caller) -> float:
    with TemporaryDirectory() as place:
        folder = Path(place, "run")
        kept = [override for override in job.overrides if override_key(override) not in (*LENGTH, "dry_run")]
        own = [f"{key}={steps}" for key in LENGTH]
        caller.train([*kept, *own, f"hydra.run.dir={as_typed(str(folder))}"])
        timed = read_run(folder)
        if timed.outcome == CRASHED:
            raise ConfigError(f"a short run of {' '.join(kept)} crashed: {timed.reason}")
        return timed.seconds or 0.0
