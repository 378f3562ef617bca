"""How long the stages of a study will take: the arithmetic of their runs at this machine's speed."""

from __future__ import annotations

from collections.abc import Sequence
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

    def seconds(self, jobs: Sequence[Job], options: Sequence[str]) -> float:
        """The time of the jobs with the stacks and processes that the command's options ask for; at least one job."""
        chosen = dict(option.split("=", 1) for option in options)
        launcher = chosen.get("hydra/launcher", "basic")
        threads = max(int(job.plain["threads"]) for job in jobs)
        workers = 1 if launcher == "basic" else int(chosen.get("workers", max(1, cores() // threads)))
        stacked = launcher == "stacked" or (launcher != "basic" and chosen.get("engine") == "stacked")
        units = arrange(jobs, workers, []) if stacked else [unit for job in jobs for unit in arrange([job], 1, [])]
        return (sum(unit.work for unit in units) * self.operation + len(jobs) * self.run) / workers


def measure_speed(job: Job, caller: Caller) -> Speed:
    """Times two short runs of a job, after one that reads the data; raises ConfigError if one of them crashes."""
    _, short, long = (_time(job, steps, caller) for steps in (1, 1, 1 + STEPS))
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
