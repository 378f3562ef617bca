"""Whether the runs of two variants are pairs: the same seeds, with the same data, engine, device, torch and threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.compare.reading.run_record import CIRCUMSTANCES, RunRecord
from experiments.compare.statistics.metric import Metric

_SHOWN = 6  # seeds or conditions that are named


@dataclass(frozen=True)
class ScorePairs:
    """The scores of two variants, in the order of their seeds; `unpaired_because` is empty for pairs.

    `circumstances` are other differences within pairs that may move a number: code, versions, machine.
    """

    a: list[float]
    b: list[float]
    unpaired_because: str
    circumstances: list[str]

    @property
    def paired(self) -> bool:
        """Whether a[i] and b[i] share a seed and all conditions."""
        return not self.unpaired_because


def samples(a: Sequence[RunRecord], b: Sequence[RunRecord], metric: Metric) -> ScorePairs:
    """The scores of the runs that have one, and if they are not pairs why."""
    first, second = ({run.seed: run for run in runs if metric.of(run) is not None} for runs in (a, b))
    scores = [[metric.of(runs[seed]) or 0.0 for seed in sorted(runs)] for runs in (first, second)]
    missing = _missing_seeds(set(first), set(second))
    if missing:
        return ScorePairs(scores[0], scores[1], missing, [])
    pairs = [(run, second[seed]) for seed, run in first.items()]
    why = _differences((mine.seed, mine.conditions, theirs.conditions) for mine, theirs in pairs)
    beside = _differences((mine.seed, _circumstances(mine), _circumstances(theirs)) for mine, theirs in pairs)
    return ScorePairs(scores[0], scores[1], "; ".join(why), beside)


def _missing_seeds(first: set[int], second: set[int]) -> str:
    odd = sorted(first ^ second)
    if not odd:
        return ""
    named = ", ".join(map(str, odd[:_SHOWN])) + (", ..." if len(odd) > _SHOWN else "")
    return f"seed {named} is on one side only" if len(odd) == 1 else f"seeds {named} are on one side only"


def _differences(pairs: Iterable[tuple[int, Mapping[str, Any], Mapping[str, Any]]]) -> list[str]:
    """The keys that both runs of a pair record and that differ in any pair, with the first seed for which they do."""
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
