"""Makes forest plots: a row a variant, with a dot a seed and the interval as a bar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.compare.report import Section
from experiments.compare.statistics.intervals import ConfidenceInterval
from experiments.compare.statistics.pairing import samples
from experiments.compare.statistics.results import Question


@dataclass(frozen=True)
class ForestRow:
    """A variant: mean, ends of its interval (NaN where there is none), and a number a seed that has one."""

    name: str
    mean: float
    low: float
    high: float
    dots: Sequence[float]


@dataclass(frozen=True)
class Forest:
    """Rows in the unit of the axis. Of differences: `zero`, and the `margin` of those that do not matter, if stated."""

    title: str
    unit: str
    rows: Sequence[ForestRow]
    zero: bool = False
    margin: float = 0.0


def score_forest(section: Section, question: Question) -> Forest:
    """Returns the scores of all variants that have one, the best first."""
    scale = _scale(question)
    rows = []
    for choice, score in zip(section.result.choices, section.result.scores, strict=True):
        values = [question.metric.of(run) for run in choice.runs]
        if score.interval is not None:
            rows.append(_row(score.name, score.interval, [value for value in values if value is not None], scale))
    unit = "%" if question.metric.kind == "accuracy" else "nats"
    rows.sort(key=lambda row: -question.metric.sign * row.mean)
    return Forest(f"{question.metric.tag}, {unit}", unit, rows)


def difference_forest(section: Section, question: Question) -> Forest | None:
    """Returns the differences to the baseline, with a dot a pair of seeds; None if there is no difference."""
    found, runs = section.result.differences, {c.variant.name: c.runs for c in section.result.choices}
    if not found:
        return None
    rows = []
    for difference in found:
        both = samples(runs[difference.name], runs[difference.baseline], question.metric)
        dots = [a - b for a, b in zip(both.a, both.b, strict=True)] if both.paired else []
        if math.isfinite(difference.interval.mean):
            rows.append(_row(difference.name, difference.interval, dots, _scale(question)))
    unit = "points" if question.metric.kind == "accuracy" else "nats"
    return Forest(
        f"difference to {found[0].baseline}, with 95 % interval, {unit}",
        unit,
        rows,
        True,
        (question.margin or 0.0) * _scale(question),
    )


def _scale(question: Question) -> float:
    return 100.0 if question.metric.kind == "accuracy" else 1.0


def _row(name: str, interval: ConfidenceInterval, dots: Sequence[float], scale: float) -> ForestRow:
    ends = (scale * interval.mean, scale * interval.low, scale * interval.high)
    return ForestRow(name, *ends, [scale * dot for dot in dots if math.isfinite(dot)])
