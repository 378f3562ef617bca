"""The closing lines of a sweep: the best setting so far, and the commands that show more."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from experiments.sweep.outcomes import JobReport
from experiments.sweep.requests import chosen_options
from experiments.sweep.variation import in_words, variation
from experiments.terminal.console import short_path, table
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import DONE, NOT_APPLICABLE
from experiments.tracking.strict_json import read_json

TASK = ("component", "model", "data")  # only settings of the same task are compared
MOST_TIED = 3  # settings that are named


@dataclass
class Setting:
    """The jobs that differ in their seed only: how many they are, and the scores of those that are done."""

    words: str
    jobs: int = 0
    scores: list[float] = field(default_factory=list)

    @property
    def seeds(self) -> str:
        """The number of seeds that the mean is of."""
        of = "" if len(self.scores) == self.jobs else f" of {self.jobs}"
        return f"{len(self.scores)}{of} {'seed' if self.jobs == 1 else 'seeds'}"


def closing_lines(root: Path, ended: Sequence[JobReport]) -> str:
    """The best setting of each task, and three commands; empty if no job is done."""
    if all(one.status != DONE for one in ended):
        return ""
    place = shlex.quote(short_path(root))
    commands = {
        "how sure": f"hardgrad compare {place}",
        "means and bands": f"hardgrad dashboard {place}",
        "single runs": f"tensorboard --logdir {place}",
    }
    found = [line for settings in _tasks(ended) if len(settings) > 1 for line in _best(settings)]
    rows = [("" if number else "best so far", line) for number, line in enumerate(found)]
    return table([*rows, *commands.items()], whole=commands)


def _tasks(ended: Sequence[JobReport]) -> Iterator[list[Setting]]:
    """The settings of each task that have a score."""
    counted = [one for one in ended if one.job.same_as is None and one.status != NOT_APPLICABLE]
    keys = [key for key in variation(one.job.overrides for one in counted) if key != "seed"]
    tasks: dict[tuple[str, ...], dict[str, Setting]] = {}
    for one in counted:
        options = chosen_options(one.job.config.hydra)
        words = in_words(one.job.overrides, keys)
        setting = tasks.setdefault(tuple(options[group] for group in TASK), {}).setdefault(words, Setting(words))
        setting.jobs += 1
        setting.scores += _score(one)
    for settings in tasks.values():
        yield [setting for setting in settings.values() if setting.scores]


def _score(ended: JobReport) -> list[float]:
    """The validation accuracy of a run's best model; nothing for a run that has none."""
    if ended.status != DONE:
        return []
    try:
        return [float(read_json(RunPaths(ended.job.folder).result)["best"]["accuracy/val"])]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _best(settings: Sequence[Setting]) -> Iterator[str]:
    best = max(fmean(setting.scores) for setting in settings)
    tied = [setting for setting in settings if fmean(setting.scores) == best]
    for setting in tied[:MOST_TIED]:
        yield f"{setting.words}: validation accuracy {best:.4f}, mean of {setting.seeds}"
    if len(tied) > MOST_TIED:
        yield f"and {len(tied) - MOST_TIED} more with the same mean"
