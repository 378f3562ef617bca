"""The comparison itself: each arm's score, and its difference to the baseline with how sure that is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.compare.blocks import Block
from experiments.compare.choosing import Choice, Seeds, choose, split_seeds
from experiments.compare.intervals import Interval, Method, difference_interval, mean_interval, seeds_needed
from experiments.compare.pairing import samples
from experiments.compare.permutation import holm, permutation_test, probability_of_improvement, seeds_to_reach
from experiments.compare.scoring import Metric, classes, outcomes

BEST = "best"
DEFAULT_BASELINE = "subgradient"
ALPHA = 0.05


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
    seconds: float | None  # mean wall-clock time of its finished runs


@dataclass(frozen=True)
class Difference:
    """An arm less the baseline. `p` is of the permutation test, `adjusted` after Holm over the block's arms."""

    name: str
    baseline: str
    interval: Interval
    unpaired_because: str
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
    return Result(block, seeds, choices, scores, differences, _notes(block, seeds, choices, differences))


def _score(choice: Choice, question: Question) -> Score:
    values = [value for run in choice.runs if (value := question.metric.of(run)) is not None]
    times = [run.seconds for run in choice.runs if run.outcome == "done" and run.seconds is not None]
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
        tested.p,
        tested.smallest,
        tested.p,
        better if question.metric.sign > 0 else 1 - better,
        seeds_needed(both.a, both.b, both.paired, question.half_width),
    )


def _notes(block: Block, seeds: Seeds, choices: list[Choice], differences: list[Difference]) -> list[str]:
    """What a reader must know before believing the numbers."""
    notes = []
    trials = {choice.arm.name: choice.trials for choice in choices}
    if len(set(trials.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in trials.items())
        notes.append(
            f"UNEQUAL number of trials: {said}; the column 'best of {min(trials.values())}' holds at equal ones"
        )
    if seeds.choosing:
        notes.append(f"tuned settings: {seeds.why}")
    notes += [
        f"{choice.arm.name}: best {key} = {choice.setting.values[key]} lies at the EDGE of the values tried"
        for choice in choices
        for key in choice.edges
    ]
    notes += [f"{c.arm.name}: its chosen setting has no run on the reported seeds" for c in choices if not c.runs]
    unknown = [c.arm.name for c in choices for run in c.runs if run.failed and classes(run.target) is None]
    notes += [f"{name}: a FAILED run is left out, the classes of its data set are not known here" for name in unknown]
    notes += _untuned(choices)
    for key, values in block.differing.items():
        notes.append(f"{key} is not the same everywhere: " + "; ".join(f"{n} {v}" for n, v in values.items()))
    notes += [f"{d.name} - {d.baseline} is UNPAIRED: {d.unpaired_because}" for d in differences if d.unpaired_because]
    return notes + _out_of_reach(differences)


def _untuned(choices: list[Choice]) -> list[str]:
    rates = {choice.arm.name: choice.setting.values.get("optimizer.lr") for choice in choices}
    if any(choice.trials > 1 for choice in choices) or len(choices) < 2:
        return []
    if len(set(rates.values())) > 1:
        return ["learning rates differ and were not chosen here: " + ", ".join(f"{n} {r}" for n, r in rates.items())]
    return [f"one learning rate ({next(iter(rates.values()))}) for all: nobody's own; sweep optimizer.lr to choose it"]


def _out_of_reach(differences: list[Difference]) -> list[str]:
    unreachable = [d for d in differences if len(differences) * d.smallest_p > ALPHA]
    if not unreachable:
        return []
    fewest = min(d.interval.n for d in unreachable)
    smallest = max(d.smallest_p for d in unreachable)
    needed = seeds_to_reach(ALPHA, len(differences))
    count = f" times {len(differences)} comparisons" if len(differences) > 1 else ""
    return [
        f"{fewest} seed{'s' * (fewest > 1)} cannot reach p = {ALPHA}: the smallest p of a permutation test is "
        f"{smallest:.3g}{count}; {needed} paired seeds can"
    ]
