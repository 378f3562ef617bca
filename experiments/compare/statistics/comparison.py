"""Compares variants: each one's score, the differences between them, and the answer of each block."""

from __future__ import annotations

import math
from collections.abc import Sequence

from experiments.compare.reading.run_record import RunRecord
from experiments.compare.statistics.blocks import RunBlock
from experiments.compare.statistics.differences import Differences
from experiments.compare.statistics.estimates import mean_estimate, mean_interval
from experiments.compare.statistics.family import Family, families
from experiments.compare.statistics.intervals import ConfidenceInterval
from experiments.compare.statistics.metric import failed_share, outcomes
from experiments.compare.statistics.notes import notes
from experiments.compare.statistics.results import BEST, Question, Result, VariantScore
from experiments.compare.statistics.sample_outcomes import SampleOutcomes
from experiments.compare.statistics.tuning import Seeds, TrialChoice, choose, split_seeds
from experiments.compare.statistics.verdict import judge

TRAINING_LOSSES = ("loss/train_end", "loss/train")  # hard on training data; as the strategy computes, while training


def compare(blocks: Sequence[RunBlock], question: Question) -> list[Result]:
    """Chooses, scores and compares the variants of every block."""
    seeds = [split_seeds(block, question.choosing_seeds) for block in blocks]
    choices = [choose(block, own) for block, own in zip(blocks, seeds, strict=True)]
    counts = [len(_comparable(own, question)) for own in choices]
    found = zip(blocks, seeds, choices, families(counts, question.family), strict=True)
    return [_compare(*block, question) for block in found]


def _compare(block: RunBlock, seeds: Seeds, choices: list[TrialChoice], family: Family, question: Question) -> Result:
    samples = SampleOutcomes(question.metric)
    difference = Differences(choices, question, family, samples)
    compared = _comparable(choices, question)
    same = [choice.variant.name for choice in compared if _is_exact(choice.runs)]
    first = same[0] if same else ""
    baseline = baseline_of(compared, question)
    differences = [difference(one.variant.name, baseline) for one in compared if one.variant.name != baseline]
    controls = [difference(name, first) for name in same[1:]]
    sign = question.metric.sign
    verdict = judge({c.variant.name: [sign * s for s in _scores(c, question)] for c in compared}, difference)
    tag = _training_tag(choices)
    same_as = dict.fromkeys(same[1:], first)
    scores = [_score(choice, question, samples, tag, same_as.get(choice.variant.name, "")) for choice in choices]
    said = [*notes(block, seeds, choices, scores, differences, family, question.baseline), *samples.problems]
    return Result(block, seeds, choices, scores, tag, differences, controls, family, verdict, said)


def _comparable(choices: Sequence[TrialChoice], question: Question) -> list[TrialChoice]:
    """Those with a reported run that has a score or failed."""
    return [choice for choice in choices if _scores(choice, question)]


def _scores(choice: TrialChoice, question: Question) -> list[float]:
    return [value for run in choice.runs if (value := question.metric.of(run)) is not None]


def _is_exact(runs: Sequence[RunRecord]) -> bool:
    """Whether all finished runs computed every op's own value and derivative in training."""
    done = [run for run in runs if run.outcome == "done"]
    return bool(done) and all(run.exact for run in done)


def baseline_of(compared: Sequence[TrialChoice], question: Question) -> str:
    """Returns the variant to compare with, never chosen by the reported scores; empty if there is none.

    It is the one with the asked name or strategy. The best is that with the highest validation accuracy on the seeds
    that chose the trials. If there is no such variant it is the first.
    """
    named = [one for one in compared if question.baseline in (one.variant.name, one.variant.strategy)]
    if question.baseline == BEST:
        chosen = [one for one in compared if one.validation is not None]
        named = [max(chosen, key=lambda one: one.validation or 0.0)] if chosen else []
    return next((one.variant.name for one in (*named, *compared)), "")


def _training_tag(choices: Sequence[TrialChoice]) -> str:
    """The first of the TRAINING_LOSSES that all finished reported runs have, else the last."""
    done = [run for choice in choices for run in choice.runs if run.outcome == "done"]
    return next((tag for tag in TRAINING_LOSSES if all(tag in run.last for run in done)), TRAINING_LOSSES[-1])


def _score(choice: TrialChoice, question: Question, samples: SampleOutcomes, tag: str, same_as: str) -> VariantScore:
    scored = [run for run in choice.runs if (value := question.metric.of(run)) is not None and math.isfinite(value)]
    own = [run for run in choice.runs if run.outcome == "done" and not run.shares_time]
    times = [run.seconds for run in own if run.seconds is not None]
    return VariantScore(
        choice.variant.name,
        choice.variant.strategy,
        _interval(scored, question, samples),
        _training_loss(scored, tag),
        failed_share(choice.runs),
        outcomes(choice.runs),
        sum(times) / len(times) if times else None,
        same_as,
    )


def _interval(runs: Sequence[RunRecord], question: Question, samples: SampleOutcomes) -> ConfidenceInterval | None:
    values = [question.metric.of(run) for run in runs]
    return mean_estimate(values, samples.outcomes(runs)).interval(question.metric.scale) if values else None


def _training_loss(runs: Sequence[RunRecord], tag: str) -> ConfidenceInterval | None:
    losses = [loss for run in runs if math.isfinite(loss := run.last.get(tag, math.nan))]
    return mean_interval(losses) if losses else None
