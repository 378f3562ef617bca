"""The differences between the variants of a block, each computed when it is asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.compare.reading.run_record import RunRecord
from experiments.compare.statistics.estimates import difference_estimate
from experiments.compare.statistics.family import Family
from experiments.compare.statistics.intervals import ALPHA, Estimate
from experiments.compare.statistics.pairing import ScorePairs, samples
from experiments.compare.statistics.permutation import compare_ranks
from experiments.compare.statistics.results import Difference, Question, VerdictOnOne
from experiments.compare.statistics.sample_outcomes import SampleOutcomes
from experiments.compare.statistics.tuning import TrialChoice


class Differences:
    """All differences between the chosen trials of a block, with intervals and p of one family."""

    def __init__(
        self, choices: Sequence[TrialChoice], question: Question, family: Family, outcomes: SampleOutcomes
    ) -> None:
        self.question, self.family, self.outcomes = question, family, outcomes
        self._runs = {choice.variant.name: choice.runs for choice in choices}
        self._known: dict[tuple[str, str], Difference] = {}

    def __call__(self, name: str, baseline: str) -> Difference:
        """The difference of one variant to another."""
        if (name, baseline) not in self._known:
            self._known[name, baseline] = self._compute(name, baseline)
        return self._known[name, baseline]

    def _compute(self, name: str, baseline: str) -> Difference:
        question, family = self.question, self.family
        both = samples(self._runs[name], self._runs[baseline], question.metric)
        estimate, count = self._estimate(both)
        sign = question.metric.sign
        ranks = compare_ranks(sign * np.array(both.a), sign * np.array(both.b), both.paired)
        scale, margin = question.metric.scale_of_difference, question.margin
        found = Difference(
            name=name,
            baseline=baseline,
            interval=estimate.interval(scale, family.level()),
            unpaired_because=both.unpaired_because,
            circumstances=both.circumstances,
            p=family.adjust(estimate.p()) if estimate.known else None,
            better=ranks.better,
            p_ranks=family.adjust(ranks.test.p),
            smallest_p_ranks=family.adjust(ranks.test.smallest),
            equivalence=estimate.interval(scale, family.level(2 * ALPHA)),
            p_equivalent=family.adjust(estimate.p_equivalent(margin)) if margin and estimate.known else None,
            seeds_needed=estimate.seeds_needed(question.half_width, family.level()),
            failed=sum(run.failed for runs in both.runs for run in runs),
            samples=count,
            verdict="none",
        )
        return dataclasses.replace(found, verdict=_verdict(found, sign))

    def _estimate(self, both: ScorePairs) -> tuple[Estimate, int | None]:
        """The mean difference over the runs with a finite score, and the number of test samples that it covers."""
        a, b = np.array(both.a), np.array(both.b)
        kept = np.isfinite(a), np.isfinite(b)
        if both.paired:
            kept = (kept[0] & kept[1],) * 2
        first, second = map(_keep, both.runs, kept)
        if not first or not second:
            return Estimate(float("nan"), 0, ()), None
        table = self.outcomes.outcomes([*first, *second])
        own = None if table is None else (table[: len(first)], table[len(first) :])
        estimate = difference_estimate(a[kept[0]], b[kept[1]], both.paired, own)
        return estimate, None if table is None else table.shape[1]


def _keep(runs: Sequence[RunRecord], which: Any) -> list[RunRecord]:
    return [run for run, keep in zip(runs, which, strict=True) if keep]


def _verdict(found: Difference, sign: int) -> VerdictOnOne:
    """Decides by the ranks of all runs if some failed, else by the interval and the margin."""
    if found.failed:
        if found.smallest_p_ranks > ALPHA:
            return "none"
        gain, p, equivalent = found.better - 0.5, found.p_ranks, False
    else:
        if found.p is None:
            return "none"
        gain, p = sign * found.interval.mean, found.p
        equivalent = found.p_equivalent is not None and found.p_equivalent <= ALPHA
    if p <= ALPHA:
        return "better" if gain > 0 else "worse"
    return "equivalent" if equivalent else "unclear"
