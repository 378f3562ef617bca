"""The comparison itself: each arm's score, and its difference to the baseline with how sure that is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.compare.statistics.blocks import Block
from experiments.compare.statistics.choosing import Choice, Seeds, choose, split_seeds
from experiments.compare.statistics.intervals import Interval, Method, difference_interval, mean_interval, seeds_needed
from experiments.compare.statistics.notes import notes
from experiments.compare.statistics.pairing import samples
from experiments.compare.statistics.permutation import holm, permutation_test, probability_of_improvement
from experiments.compare.statistics.scoring import Metric, outcomes

BEST = "best"
DEFAULT_BASELINE = "subgradient"


@dataclass(frozen=True)
class Question:
    """What is asked of the runs; `half_width` is in the metric's own unit."""

    metric: Metric = dataclasses.field(default_factory=Metric)
    baseline: str = DEFAULT_BASELINE
    method: Method = "t"
    half_width: float = 0.01
    choosing_seeds: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Score:
    """An arm's score over the reported seeds; `failures` in words, `interval` None where no run has a score."""

    name: str
    strategy: str
    interval: Interval | None
    failures: str
    seconds: float | None  # mean wall-clock time of its finished runs that had one of their own


@dataclass(frozen=True)
class Difference:
    """An arm less the baseline. `p` is of the permutation test, `adjusted` after Holm over the block's arms."""

    name: str
    baseline: str
    interval: Interval
    unpaired_because: str
    circumstances: list[str]  # what differs within pairs all the same
    p: float
    smallest_p: float
    adjusted: float
    improvement: float  # probability that a run of this arm beats one of the baseline
    seeds_needed: int | None


@dataclass
class Result:
    """All that is known about a block."""

    block: Block
    seeds: Seeds
    choices: list[Choice]
    scores: list[Score]
    differences: list[Difference]
    notes: list[str]


def compare(block: Block, question: Question) -> Result:
    """Chooses, scores and compares the arms of a block."""
    seeds = split_seeds(block, question.choosing_seeds)
    choices = choose(block, seeds)
    scores = [_score(choice, question) for choice in choices]
    scored = [(c, s) for c, s in zip(choices, scores, strict=True) if s.interval is not None]
    differences = _differences([c for c, _ in scored], [s for _, s in scored], question)
    asked = None if question.baseline == BEST else question.baseline
    said = notes(block, seeds, choices, differences, asked)
    return Result(block, seeds, choices, scores, differences, said)


def _score(choice: Choice, question: Question) -> Score:
    values = [value for run in choice.runs if (value := question.metric.of(run)) is not None]
    own = [run for run in choice.runs if run.outcome == "done" and not run.shares_time]
    times = [run.seconds for run in own if run.seconds is not None]
    return Score(
        choice.arm.name,
        choice.arm.strategy,
        mean_interval(values, question.method) if values else None,
        outcomes(choice.runs),
        sum(times) / len(times) if times else None,
    )


def baseline_of(scores: Sequence[Score], question: Question) -> Score:
    """The arm that the others are held against: the one asked for by name or strategy, the best one, else the first."""
    if question.baseline == BEST:
        return max(scores, key=lambda score: question.metric.sign * score.interval.mean)  # type: ignore[union-attr]
    named = [score for score in scores if question.baseline in (score.name, score.strategy)]
    return (named or list(scores))[0]


def _differences(choices: list[Choice], scores: list[Score], question: Question) -> list[Difference]:
    if len(choices) < 2:
        return []
    baseline = baseline_of(scores, question)
    reference = next(choice for choice in choices if choice.arm.name == baseline.name)
    found = [_difference(choice, reference, question) for choice in choices if choice is not reference]
    adjusted = holm([difference.p for difference in found])
    return [dataclasses.replace(d, adjusted=value) for d, value in zip(found, adjusted, strict=True)]


def _difference(choice: Choice, reference: Choice, question: Question) -> Difference:
    both = samples(choice.runs, reference.runs, question.metric)
    tested = permutation_test(both.a, both.b, both.paired)
    better = probability_of_improvement(both.a, both.b)
    return Difference(
        choice.arm.name,
        reference.arm.name,
        difference_interval(both.a, both.b, both.paired, question.method),
        both.unpaired_because,
        both.circumstances,
        tested.p,
        tested.smallest,
        tested.p,
        better if question.metric.sign > 0 else 1 - better,
        seeds_needed(both.a, both.b, both.paired, question.half_width),
    )
