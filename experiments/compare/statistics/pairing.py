"""Pairs the runs of two variants: the same seed, data, engine, device, torch version and number of threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.compare.reading.run_record import CIRCUMSTANCES, RunRecord
from experiments.compare.statistics.metric import Metric

_SHOWN = 6  # seeds or conditions that are named


@dataclass(frozen=True)
class ScorePairs:
    """The runs of two variants that have a score or failed, and their scores, in the order of their seeds.

    `unpaired_because`: why they are not pairs; empty for pairs. `circumstances`: other differences within pairs
    (code, versions, machine) that may change a number.
    """

    a: list[float]
    b: list[float]
    runs: tuple[list[RunRecord], list[RunRecord]]
    unpaired_because: str
    circumstances: list[str]

    @property
    def paired(self) -> bool:
        """Whether a[i] and b[i] share a seed and all conditions."""
        return not self.unpaired_because


def samples(a: Sequence[RunRecord], b: Sequence[RunRecord], metric: Metric) -> ScorePairs:
    """Returns the scores of the runs that have one, and why they are not pairs if they are not."""
    first, second = ({run.seed: run for run in runs if metric.of(run) is not None} for runs in (a, b))
    ordered = [first[seed] for seed in sorted(first)], [second[seed] for seed in sorted(second)]
    scores = [[metric.of(run) or 0.0 for run in runs] for runs in ordered]
    missing = _missing_seeds(set(first), set(second))
    if missing:
        return ScorePairs(scores[0], scores[1], ordered, missing, [])
    pairs = [(run, second[seed]) for seed, run in first.items()]
    why = _differences((mine.seed, mine.conditions, theirs.conditions) for mine, theirs in pairs)
    beside = _differences((mine.seed, _circumstances(mine), _circumstances(theirs)) for mine, theirs in pairs)
    return ScorePairs(scores[0], scores[1], ordered, "; ".join(why), beside)


def _missing_seeds(first: set[int], second: set[int]) -> str:
    odd = sorted(first ^ second)
    if not odd:
        return ""
    named = ", ".join(map(str, odd[:_SHOWN])) + (", ..." if len(odd) > _SHOWN else "")
    return f"only one of the two has seed {named}" if len(odd) == 1 else f"only one of the two has seeds {named}"


def _differences(pairs: Iterable[tuple[int, Mapping[str, Any], Mapping[str, Any]]]) -> list[str]:
    """Describes each recorded key that differs within a pair, with the values of the first such seed."""
    differ: dict[str, str] = {}
    for seed, first, second in pairs:
        for key in first.keys() & second.keys():
            mine, theirs = first[key], second[key]
            if mine != theirs:
                differ.setdefault(key, f"{key} differs ({_short(mine)} and {_short(theirs)} for seed {seed})")
    return [differ[key] for key in sorted(differ)[:_SHOWN]]


def _circumstances(run: RunRecord) -> dict[str, Any]:
    return {key: run.environment[key] for key in CIRCUMSTANCES if key in run.environment}


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 20 else f"{text[:12]}..."
