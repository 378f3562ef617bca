"""The score of a run; a diverged or crashed run scores as a guess."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from experiments.compare.reading.run_record import RunRecord

VALIDATION = "accuracy/val"
At = Literal["best", "last"]


class WrongMetric(Exception):
    """Raised if a metric cannot be compared; the message names those that can."""


@dataclass(frozen=True)
class Metric:
    """The tag whose values are compared, at the checkpoint with the best validation accuracy or at the last step.

    Raises WrongMetric if the tag is not an accuracy or a loss.
    """

    tag: str = "accuracy/test"
    at: At = "best"

    def __post_init__(self) -> None:
        if self.kind not in ("accuracy", "loss"):
            raise WrongMetric(f"{self.tag} has no value for a failed run; choose an accuracy/... or loss/... tag")

    @property
    def kind(self) -> str:
        """`accuracy` or `loss`."""
        return self.tag.partition("/")[0]

    @property
    def sign(self) -> int:
        """1 if larger is better (accuracy), else -1 (loss)."""
        return 1 if self.kind == "accuracy" else -1

    def of(self, run: RunRecord) -> float | None:
        """Returns the run's score, or a guess's if the run failed; None if it is unfinished or lacks the tag."""
        if run.failed:
            return self.guess(run)
        if run.outcome != "done":
            return None
        return (run.best if self.at == "best" else run.last).get(self.tag)

    def guess(self, run: RunRecord) -> float | None:
        """Returns the score of a guess among K classes: accuracy 1/K, cross-entropy ln K; None if K is unknown."""
        count = run.classes
        if count is None:
            return None
        return 1 / count if self.kind == "accuracy" else math.log(count)


def outcomes(runs: Iterable[RunRecord]) -> str:
    """Counts the runs that are not done, by outcome, in words; empty if all are done."""
    names = [run.outcome for run in runs if run.outcome != "done"]
    return ", ".join(f"{names.count(name)} {name}" for name in sorted(set(names)))
