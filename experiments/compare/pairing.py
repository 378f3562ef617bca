"""Whether the runs of two arms are pairs: the same seeds, and for each the same data, engine, machine and versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.compare.run_record import RunRecord
from experiments.compare.scoring import Metric

_SHOWN = 6  # seeds or conditions that are named


@dataclass(frozen=True)
class Samples:
    """The scores of two arms, in the order of their seeds; `unpaired_because` is empty for pairs."""

    a: list[float]
    b: list[float]
    unpaired_because: str

    @property
    def paired(self) -> bool:
        """Whether a[i] and b[i] share a seed and everything else that they must."""
        return not self.unpaired_because


def samples(a: Sequence[RunRecord], b: Sequence[RunRecord], metric: Metric) -> Samples:
    """The scores of the runs that have one, and why they are no pairs if they are not."""
    first, second = ({run.seed: run for run in runs if metric.of(run) is not None} for runs in (a, b))
    scores = [[metric.of(runs[seed]) or 0.0 for seed in sorted(runs)] for runs in (first, second)]
    return Samples(scores[0], scores[1], _missing(set(first), set(second)) or _conditions(first, second))


def _missing(first: set[int], second: set[int]) -> str:
    odd = sorted(first ^ second)
    if not odd:
        return ""
    named = ", ".join(map(str, odd[:_SHOWN])) + (", ..." if len(odd) > _SHOWN else "")
    return f"seed {named} is on one side only" if len(odd) == 1 else f"seeds {named} are on one side only"


def _conditions(first: dict[int, RunRecord], second: dict[int, RunRecord]) -> str:
    """The conditions that both runs of a pair know and that differ in any pair."""
    differ: dict[str, str] = {}
    for seed, run in first.items():
        other = second[seed]
        for key in run.conditions.keys() & other.conditions.keys():
            mine, theirs = run.conditions[key], other.conditions[key]
            if mine != theirs:
                differ.setdefault(key, f"{key} differs ({_short(mine)} and {_short(theirs)} for seed {seed})")
    return "; ".join(differ[key] for key in sorted(differ)[:_SHOWN])


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 20 else f"{text[:12]}..."
