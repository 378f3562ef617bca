"""What is asked of the runs of a block, and what the comparison of its variants found."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from experiments.compare.statistics.blocks import RunBlock
from experiments.compare.statistics.intervals import ConfidenceInterval, Method
from experiments.compare.statistics.metric import Metric
from experiments.compare.statistics.tuning import Seeds, TrialChoice

BEST = "best"
DEFAULT_BASELINE = "subgradient"


@dataclass(frozen=True)
class Question:
    """What to compare the runs by, and how; `half_width` is in the metric's own unit."""

    metric: Metric = dataclasses.field(default_factory=Metric)
    baseline: str = DEFAULT_BASELINE
    method: Method = "t"
    half_width: float = 0.01
    choosing_seeds: tuple[int, ...] | None = None


@dataclass(frozen=True)
class VariantScore:
    """A variant's score over the reported seeds; `failures` in words, `interval` None if no run has a score."""

    name: str
    strategy: str
    interval: ConfidenceInterval | None
    failures: str
    seconds: float | None  # mean wall-clock time of its finished runs that had one of their own


@dataclass(frozen=True)
class Difference:
    """A variant's score minus the baseline's; `p` is of the permutation test, `adjusted` after Holm over the block."""

    name: str
    baseline: str
    interval: ConfidenceInterval
    unpaired_because: str
    circumstances: list[str]  # other differences within pairs
    p: float
    smallest_p: float
    adjusted: float
    improvement: float  # probability that a run of this variant beats one of the baseline
    seeds_needed: int | None


@dataclass
class Result:
    """All that is known about a block."""

    block: RunBlock
    seeds: Seeds
    choices: list[TrialChoice]
    scores: list[VariantScore]
    differences: list[Difference]
    notes: list[str]
