"""How often the answers of `hardgrad compare` are right, by simulation: two Markdown tables.

    python benchmarks/compare_coverage.py --samples 4000 --reports 400

Each sample has four strategies and n seeds. Coverage of the scores: the share of printed intervals that hold the true
mean. Coverage of the differences: the share of samples in which all printed intervals of the six pairs hold theirs.
False claims: the share of reports on equal strategies that name a difference.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_laws import LAWS, VARIANTS, Law

from experiments.compare.statistics.blocks import RunBlock, Trial, Variant
from experiments.compare.statistics.comparison import compare
from experiments.compare.statistics.estimates import difference_estimate, mean_estimate
from experiments.compare.statistics.family import Family
from experiments.compare.statistics.intervals import ALPHA
from experiments.compare.statistics.results import Question, Result

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from run_folders import record

SEEDS = (3, 5, 8, 20)
PAIRS = list(combinations(range(VARIANTS), 2))
FAMILY = Family(len(PAIRS), "block")
MARGIN = 0.01


@dataclass(frozen=True)
class Coverage:
    """Of a law at n seeds: coverage of the scores, of all differences together, and the share of them printed."""

    law: str
    n: int
    scores: float
    differences: float
    printed: float

    def __str__(self) -> str:
        return f"{self.scores:.3f} / {self.differences:.3f}"


def measure(law: Law, n: int, samples: int, seed: int = 0) -> Coverage:
    """Draws `samples` tables of n seeds and counts the intervals that hold the truth."""
    scores, pairs = _truth(law, np.random.default_rng(seed + 1))
    held_scores, held_pairs, printed = [], [], []
    for table in _tables(law, np.random.default_rng([seed, n]), n, samples):
        runs, outcomes = (table, None) if law.accuracy is None else (table.mean(-1), table)
        held_scores += _scores(runs, outcomes, scores)
        found = _differences(runs, outcomes, pairs)
        printed.append(len(found) / len(PAIRS))
        held_pairs += [all(found)] if found else []
    return Coverage(law.name, n, *(float(np.mean(x)) for x in (held_scores, held_pairs, printed)))


def _tables(law: Law, rng: np.random.Generator, n: int, samples: int, batch: int = 50) -> Iterator[Any]:
    for _ in range(0, samples, batch):
        yield from law.draw(rng, batch, n)


def _truth(law: Law, rng: np.random.Generator) -> tuple[Any, Any]:
    """The mean of every variant's finished runs, and of every pair's difference where both finished."""
    if law.accuracy is not None:
        return np.full(VARIANTS, law.accuracy), np.zeros(len(PAIRS))
    runs = np.concatenate(list(_tables(law, rng, 20, 20_000)), axis=1)
    return np.nanmean(runs, 1), np.array([np.nanmean(runs[i] - runs[j]) for i, j in PAIRS])


def _scores(runs: Any, outcomes: Any, truth: Any) -> list[bool]:
    held = []
    for variant, (own, true) in enumerate(zip(runs, truth, strict=True)):
        kept = np.isfinite(own)
        if kept.any():
            interval = mean_estimate(own[kept], None if outcomes is None else outcomes[variant]).interval("share")
            held += [] if interval.missing else [interval.low <= true <= interval.high]
    return held


def _differences(runs: Any, outcomes: Any, truth: Any) -> list[bool]:
    held = []
    for (i, j), true in zip(PAIRS, truth, strict=True):
        kept = np.isfinite(runs[i]) & np.isfinite(runs[j])
        if not kept.any():
            continue
        both = None if outcomes is None else (outcomes[i], outcomes[j])
        estimate = difference_estimate(runs[i][kept], runs[j][kept], True, both)
        interval = estimate.interval("difference of shares", FAMILY.level())
        held += [] if interval.missing else [interval.low <= true <= interval.high]
    return held


def false_claims(n: int, failing: float, reports: int) -> float:
    """Share of reports on four equal strategies that show a difference; a run fails with chance `failing`."""
    rng = np.random.default_rng([n, round(100 * failing)])
    shown = 0
    for _ in range(reports):
        found = _report(0.6 + 0.02 * rng.normal(size=(4, n)), rng.random((4, n)) < failing)
        verdicts = {difference.verdict for difference in found.differences}
        shown += found.verdict.kind == "winner" or bool(verdicts & {"better", "worse"})
    return shown / reports


def false_equivalence(n: int, samples: int) -> float:
    """Share of tests of equivalence that pass for two strategies whose accuracies differ by exactly the margin."""
    rng, means = np.random.default_rng(n), np.array([[0.6], [0.6 + MARGIN]])
    drawn = (means + 0.003 * rng.normal(size=(2, n)) for _ in range(samples))
    return float(np.mean([difference_estimate(a, b, True).p_equivalent(MARGIN) <= ALPHA for a, b in drawn]))


def _report(accuracies: Any, failed: Any) -> Result:
    variants = []
    for index, (own, gone) in enumerate(zip(accuracies.tolist(), failed.tolist(), strict=True)):
        name = f"strategy_{index}"
        ends = enumerate(zip(own, gone, strict=True))
        runs = {seed: record(name, seed, x, outcome="diverged" if fails else "done") for seed, (x, fails) in ends}
        variants.append(Variant(name, name, [Trial({}, runs)]))
    (found,) = compare([RunBlock(("simulated",), variants, {}, {})], Question())
    return found


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--reports", type=int, default=400)
    given = parser.parse_args()
    _print("accuracies", [(law.name, lambda n, law=law: str(measure(law, n, given.samples))) for law in LAWS])
    claims = [(f"equal, {failing:.0%} diverge", failing) for failing in (0.0, 0.2)]
    rows = [(name, lambda n, share=share: f"{false_claims(n, share, given.reports):.3f}") for name, share in claims]
    rows.append(("apart by the margin, equivalent by the test", lambda n: f"{false_equivalence(n, given.samples):.3f}"))
    _print("strategies", rows)


def _print(title: str, rows: list[tuple[str, Any]]) -> None:
    print(f"| {title} | " + " | ".join(f"n = {n}" for n in SEEDS) + " |")
    print("|---" * (len(SEEDS) + 1) + "|")
    for name, cell in rows:
        print(f"| {name} | " + " | ".join(cell(n) for n in SEEDS) + " |", flush=True)
    print()


if __name__ == "__main__":
    main()
