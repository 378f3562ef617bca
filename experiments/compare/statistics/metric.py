"""A run's score, or that of a guess if it diverged or crashed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from experiments.compare.reading.run_record import RunRecord

VALIDATION = "accuracy/val"
At = Literal["best", "last"]


class WrongMetric(Exception):
    """A metric that cannot be compared; the message names the ones that can."""


@dataclass(frozen=True)
class Metric:
    """The tag that strategies are compared by, at the best checkpoint (by validation accuracy) or at the last step."""

    tag: str = "accuracy/test"
    at: At = "best"

    def __post_init__(self) -> None:
        if self.kind not in ("accuracy", "loss"):
            raise WrongMetric(f"{self.tag} has no value for a failed run; choose an accuracy/... or loss/... tag")

    @property
    def kind(self) -> str:
        """`accuracy`, of which more is better, or `loss`."""
        return self.tag.partition("/")[0]

    @property
    def sign(self) -> int:
        """1 where more is better, else -1."""
        return 1 if self.kind == "accuracy" else -1

    def of(self, run: RunRecord) -> float | None:
        """The run's score; a failed one's is a guess's; None for an unfinished one and for one without the tag."""
        if run.failed:
            return self.guess(run)
        if run.outcome != "done":
            return None
        return (run.best if self.at == "best" else run.last).get(self.tag)

    def guess(self, run: RunRecord) -> float | None:
        """Of K classes: accuracy 1/K, cross-entropy ln K; None if K is not known."""
        count = run.classes
        if count is None:
            return None
        return 1 / count if self.kind == "accuracy" else math.log(count)


def outcomes(runs: Iterable[RunRecord]) -> str:
    """How many runs did not finish well, by how, in words; empty if all did."""
    names = [run.outcome for run in runs if run.outcome != "done"]
    return ", ".join(f"{names.count(name)} {name}" for name in sorted(set(names)))
