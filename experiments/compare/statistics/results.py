"""The question that a comparison answers, and its result for a block."""

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
    """What to compare, with which baseline and method; `half_width` is in the metric's own unit."""

    metric: Metric = dataclasses.field(default_factory=Metric)
    baseline: str = DEFAULT_BASELINE
    method: Method = "t"
    half_width: float = 0.01
    choosing_seeds: tuple[int, ...] | None = None


@dataclass(frozen=True)
class VariantScore:
    """A variant's score over the reported seeds; `interval` is None if no run has a score, `failures` are words."""

    name: str
    strategy: str
    interval: ConfidenceInterval | None
    failures: str
    seconds: float | None  # mean wall-clock time of its finished runs that were not in a stack


@dataclass(frozen=True)
class Difference:
    """A variant's score minus the baseline's; `p` of the permutation test, `adjusted` by Holm over the block."""

    name: str
    baseline: str
    interval: ConfidenceInterval
    unpaired_because: str
    circumstances: list[str]  # other differences within pairs
    p: float
    smallest_p: float
    adjusted: float
    improvement: float  # the chance that a run of this variant beats a run of the baseline
    seeds_needed: int | None


@dataclass
class Result:
    """The result of a comparison for a block: choices, scores, differences and notes."""

    block: RunBlock
    seeds: Seeds
    choices: list[TrialChoice]
    scores: list[VariantScore]
    differences: list[Difference]
    notes: list[str]
