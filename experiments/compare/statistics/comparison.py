"""Compares variants: each one's score, its difference to the baseline, and how sure that difference is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from experiments.compare.statistics.blocks import RunBlock
from experiments.compare.statistics.intervals import difference_interval, mean_interval, seeds_needed
from experiments.compare.statistics.metric import outcomes
from experiments.compare.statistics.notes import notes
from experiments.compare.statistics.pairing import samples
from experiments.compare.statistics.permutation import holm, permutation_test, probability_of_improvement
from experiments.compare.statistics.results import BEST, Difference, Question, Result, VariantScore
from experiments.compare.statistics.tuning import TrialChoice, choose, split_seeds


def compare(block: RunBlock, question: Question) -> Result:
    """Chooses, scores and compares the variants of a block."""
    seeds = split_seeds(block, question.choosing_seeds)
    choices = choose(block, seeds)
    scores = [_score(choice, question) for choice in choices]
    scored = [(c, s) for c, s in zip(choices, scores, strict=True) if s.interval is not None]
    differences = _differences([c for c, _ in scored], [s for _, s in scored], question)
    asked = None if question.baseline == BEST else question.baseline
    said = notes(block, seeds, choices, differences, asked)
    return Result(block, seeds, choices, scores, differences, said)


def _score(choice: TrialChoice, question: Question) -> VariantScore:
    values = [value for run in choice.runs if (value := question.metric.of(run)) is not None]
    own = [run for run in choice.runs if run.outcome == "done" and not run.shares_time]
    times = [run.seconds for run in own if run.seconds is not None]
    return VariantScore(
        choice.variant.name,
        choice.variant.strategy,
        mean_interval(values, question.method) if values else None,
        outcomes(choice.runs),
        sum(times) / len(times) if times else None,
    )


def baseline_of(scores: Sequence[VariantScore], question: Question) -> VariantScore:
    """Returns the variant to compare with: the best, or the one with this name or strategy, else the first."""
    if question.baseline == BEST:
        return max(scores, key=lambda score: question.metric.sign * score.interval.mean)  # type: ignore[union-attr]
    named = [score for score in scores if question.baseline in (score.name, score.strategy)]
    return (named or list(scores))[0]


def _differences(choices: list[TrialChoice], scores: list[VariantScore], question: Question) -> list[Difference]:
    if len(choices) < 2:
        return []
    baseline = baseline_of(scores, question)
    reference = next(choice for choice in choices if choice.variant.name == baseline.name)
    found = [_difference(choice, reference, question) for choice in choices if choice is not reference]
    adjusted = holm([difference.p for difference in found])
    return [dataclasses.replace(d, adjusted=value) for d, value in zip(found, adjusted, strict=True)]


def _difference(choice: TrialChoice, reference: TrialChoice, question: Question) -> Difference:
    both = samples(choice.runs, reference.runs, question.metric)
    tested = permutation_test(both.a, both.b, both.paired)
    better = probability_of_improvement(both.a, both.b)
    return Difference(
        choice.variant.name,
        reference.variant.name,
        difference_interval(both.a, both.b, both.paired, question.method),
        both.unpaired_because,
        both.circumstances,
        tested.p,
        tested.smallest,
        tested.p,
        better if question.metric.sign > 0 else 1 - better,
        seeds_needed(both.a, both.b, both.paired, question.half_width),
    )
