"""The score of a run; a diverged or crashed run has none and ranks below every other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from experiments.compare.reading.run_record import RunRecord
from experiments.compare.statistics.intervals import LEVEL, Scale

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
            raise WrongMetric(f"{self.tag} is no score; choose an accuracy/... or loss/... tag")

    @property
    def kind(self) -> str:
        """`accuracy` or `loss`."""
        return self.tag.partition("/")[0]

    @property
    def sign(self) -> int:
        """1 if larger is better (accuracy), else -1 (loss)."""
        return 1 if self.kind == "accuracy" else -1

    @property
    def scale(self) -> Scale:
        """What a score is: a share of samples, or any number."""
        return "share" if self.kind == "accuracy" else "number"

    @property
    def scale_of_difference(self) -> Scale:
        """What the difference of two scores is."""
        return "difference of shares" if self.kind == "accuracy" else "number"

    def in_own_unit(self, number: float | None) -> float | None:
        """Converts points to a share of samples; nats stay."""
        return number / 100 if number is not None and self.kind == "accuracy" else number

    def of(self, run: RunRecord) -> float | None:
        """Returns the run's score: infinitely bad if it failed, None if it is unfinished or lacks the tag."""
        worst = -self.sign * math.inf
        if run.failed:
            return worst
        value = (run.best if self.at == "best" else run.last).get(self.tag) if run.outcome == "done" else None
        return worst if value is not None and not math.isfinite(value) else value

    def refuse_unknown(self, runs: Iterable[RunRecord]) -> None:
        """Raises WrongMetric, with those that are there, if no finished run has a value of the tag."""
        tags = sorted(
            {tag for run in runs if run.outcome == "done" for tag in (run.best if self.at == "best" else run.last)}
        )
        known = [tag for tag in tags if tag.startswith(("accuracy/", "loss/"))]
        if tags and self.tag not in tags:
            raise WrongMetric(f"no run has a value of {self.tag}; their scores are: {', '.join(known) or 'none'}")


@dataclass(frozen=True)
class FailedShare:
    """How many of the runs that ended have failed, and the Clopper-Pearson interval (1934) of their share."""

    failed: int
    ended: int
    low: float
    high: float


def failed_share(runs: Sequence[RunRecord]) -> FailedShare | None:
    """Counts the failed runs among those that are done or failed; None if no run has ended."""
    from scipy import stats

    ended = [run for run in runs if run.failed or run.outcome == "done"]
    if not ended:
        return None
    failed = sum(run.failed for run in ended)
    ends = stats.binomtest(failed, len(ended)).proportion_ci(LEVEL, "exact")
    return FailedShare(failed, len(ended), float(ends.low), float(ends.high))


def outcomes(runs: Iterable[RunRecord]) -> str:
    """Counts the runs that are not done, by outcome, in words; empty if all are done."""
    names = [run.outcome for run in runs if run.outcome != "done"]
    return ", ".join(f"{names.count(name)} {name}" for name in sorted(set(names)))
