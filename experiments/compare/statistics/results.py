"""The question that a comparison answers, and its result for a block."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from experiments.compare.statistics.blocks import RunBlock
from experiments.compare.statistics.family import Family, Scope
from experiments.compare.statistics.intervals import ConfidenceInterval
from experiments.compare.statistics.metric import FailedShare, Metric
from experiments.compare.statistics.tuning import Seeds, TrialChoice

BEST = "best"
DEFAULT_BASELINE = "subgradient"

VerdictOnOne = Literal["better", "worse", "equivalent", "unclear", "none"]


@dataclass(frozen=True)
class Question:
    """What to compare, with which baseline; `half_width` and `margin` are in the metric's own unit.

    `margin` is the largest difference that does not matter, stated beforehand. Without it nothing is called equivalent.
    Raises ValueError unless the margin is above 0.
    """

    metric: Metric = dataclasses.field(default_factory=Metric)
    baseline: str = DEFAULT_BASELINE
    margin: float | None = None
    half_width: float = 0.01
    choosing_seeds: tuple[int, ...] | None = None
    family: Scope = "report"

    def __post_init__(self) -> None:
        if self.margin is not None and not self.margin > 0:
            raise ValueError(f"the margin must be above 0, got {self.margin:g}")


@dataclass(frozen=True)
class VariantScore:
    """A variant's score over its finished reported runs.

    `interval` and `training_loss` (at the last step) are None if no run has one; `failures` are words; `same_as` names
    the first variant of the block that is the same function.
    """

    name: str
    strategy: str
    interval: ConfidenceInterval | None
    training_loss: ConfidenceInterval | None
    failed: FailedShare | None
    failures: str
    seconds: float | None  # mean wall-clock time of its finished runs that were not in a stack
    same_as: str = ""


@dataclass(frozen=True)
class Difference:
    """A variant's score minus another's, over the pairs of runs that both finished.

    - `interval`, `p`, `p_ranks`, `p_equivalent`: adjusted for the family
    - `equivalence`: the 90 % interval, whose place within the margin is what `p_equivalent` tests
    - `better`: the chance that a run of the variant beats one of the baseline, failed runs lowest
    - `failed`: failed runs of the two; if there are any, the ranks decide
    - `samples`: number of test samples whose choice the interval covers; None if it covers training variation only
    - `verdict`: what is shown of the variant; `none` if these runs can show nothing
    """

    name: str
    baseline: str
    interval: ConfidenceInterval
    unpaired_because: str
    circumstances: list[str]  # other differences within pairs
    p: float | None
    better: float
    p_ranks: float
    smallest_p_ranks: float
    equivalence: ConfidenceInterval
    p_equivalent: float | None
    seeds_needed: int | None
    failed: int
    samples: int | None
    verdict: VerdictOnOne


@dataclass(frozen=True)
class Verdict:
    """The answer of a block.

    - `winner`: the first of `top` is better than every other variant; `against` is its difference to the closest
    - `several`: those in `top` are not separated; `against` is the difference to the closest that is worse, if any is
    - `unclear`: two variants, not separated; `equivalent`: within the margin; `against` is their largest difference
    - `too few`: no interval; `alone`: nothing to compare
    """

    kind: Literal["winner", "several", "unclear", "equivalent", "too few", "alone"]
    top: tuple[str, ...]
    against: Difference | None = None


@dataclass
class Result:
    """The result of a comparison for a block.

    `training_tag` is that of the training losses. `differences` are those to the baseline; `controls` those between
    variants that are the same function.
    """

    block: RunBlock
    seeds: Seeds
    choices: list[TrialChoice]
    scores: list[VariantScore]
    training_tag: str
    differences: list[Difference]
    controls: list[Difference]
    family: Family
    verdict: Verdict
    notes: list[str]
