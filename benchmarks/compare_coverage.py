"""How often the intervals of `hardgrad compare` hold the truth, by simulation: a Markdown table.

    python benchmarks/compare_coverage.py --samples 4000

Each sample has four strategies and n seeds. Coverage of a score: the share of printed intervals that hold the true
mean. Coverage of the differences: the share of samples in which all printed intervals of the six pairs hold theirs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats

from experiments.compare.statistics.estimates import difference_estimate, mean_estimate
from experiments.compare.statistics.family import Family

SEEDS = (3, 5, 8, 20)
VARIANTS = 4
PAIRS = list(combinations(range(VARIANTS), 2))
FAMILY = Family(len(PAIRS), "block")
UNEQUAL = np.array([1.0, 0.5, 2.0, 0.2])[:, None]  # spreads of the variants
TEST_SAMPLES = 500

Draw = Callable[[np.random.Generator, int, int], Any]


@dataclass(frozen=True)
class Law:
    """How accuracies vary.

    `draw` returns them as (samples, variants, seeds), NaN for a failed run. If `accuracy` is given, all variants have
    it, and `draw` returns which test samples are right: (samples, variants, seeds, test samples).
    """

    name: str
    draw: Draw
    accuracy: float | None = None
    held: bool = True  # whether the intervals are meant to hold


@dataclass(frozen=True)
class Coverage:
    """Of a law at n seeds: coverage of the scores, of all differences together, and the share of them printed."""

    law: str
    n: int
    scores: float
    differences: float
    printed: float


def _seeds(rng: np.random.Generator, samples: int, n: int) -> Any:
    """What the variants of a seed have in common: initial weights and batches."""
    return 0.01 * rng.normal(size=(samples, 1, n))


def _normal(rng: np.random.Generator, samples: int, n: int) -> Any:
    return 0.6 + _seeds(rng, samples, n) + 0.02 * rng.normal(size=(samples, VARIANTS, n))


def _unequal(rng: np.random.Generator, samples: int, n: int) -> Any:
    return 0.6 + _seeds(rng, samples, n) + 0.02 * UNEQUAL * rng.normal(size=(samples, VARIANTS, n))


def _skewed(rng: np.random.Generator, samples: int, n: int) -> Any:
    """Skewness -1, with other spreads."""
    return 0.65 + _seeds(rng, samples, n) - 0.0125 * UNEQUAL * rng.gamma(4, size=(samples, VARIANTS, n))


def _ceiling(rng: np.random.Generator, samples: int, n: int) -> Any:
    """Normal on the logit scale, means from 60 to 97 %."""
    means = np.array([3.5, 2.2, 1.5, 0.4])[:, None]
    noise = 0.4 * rng.normal(size=(samples, VARIANTS, n)) + 0.3 * rng.normal(size=(samples, 1, n))
    return 1 / (1 + np.exp(-means - noise))


def _tied(rng: np.random.Generator, samples: int, n: int) -> Any:
    """Steps of one point, so that two runs in five tie."""
    return np.round(0.6 + 0.007 * rng.normal(size=(samples, VARIANTS, n)), 2)


def _diverging(rng: np.random.Generator, samples: int, n: int) -> Any:
    """The worst 1, 5, 12 and 25 % of the runs fail."""
    noise = rng.normal(size=(samples, VARIANTS, n)) + 0.3 * rng.normal(size=(samples, 1, n))
    limits = np.array([-2.4, -1.7, -1.2, -0.7])[:, None]
    return np.where(noise < limits, np.nan, 0.6 + 0.02 * noise)


def _exponential(rng: np.random.Generator, samples: int, n: int) -> Any:
    """Skewness -2, with other spreads."""
    return 0.65 - 0.05 * UNEQUAL * rng.exponential(size=(samples, VARIANTS, n))


def _stuck(rng: np.random.Generator, samples: int, n: int) -> Any:
    """One run in ten stays at 20 %."""
    stuck = rng.random((samples, VARIANTS, n)) < 0.1
    return np.where(stuck, 0.2, 0.6 + 0.01 * rng.normal(size=(samples, VARIANTS, n)))


def _shared(name: str, training: float) -> Law:
    """One test part: a sample is hard for all, or for a variant, with spread 1 and 1/2; `training` spreads the runs."""

    def draw(rng: np.random.Generator, samples: int, n: int) -> Any:
        shape = (samples, VARIANTS, n, TEST_SAMPLES)
        hard = rng.normal(size=(samples, 1, 1, TEST_SAMPLES))
        hard = hard + 0.5 * rng.normal(size=(samples, VARIANTS, 1, TEST_SAMPLES))
        run = training * rng.normal(size=(*shape[:3], 1))
        return 0.25 + hard + run + rng.normal(size=shape) > 0

    return Law(name, draw, float(stats.norm.cdf(0.25 / np.sqrt(1 + 0.25 + 1 + training**2))))


LAWS = (
    Law("normal", _normal),
    Law("normal, unequal spreads", _unequal),
    Law("skewed (1), unequal spreads", _skewed),
    Law("near 100 %", _ceiling),
    Law("tied", _tied),
    Law("diverging, 1 to 25 %", _diverging),
    _shared("shared test set, little training variation", 0.05),
    _shared("shared test set, much training variation", 0.3),
    Law("strongly skewed (2), unequal spreads", _exponential, held=False),
    Law("one run in ten stuck", _stuck, held=False),
)


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


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=4000)
    samples = parser.parse_args().samples
    print("| accuracies | " + " | ".join(f"n = {n}" for n in SEEDS) + " |")
    print("|---" * (len(SEEDS) + 1) + "|")
    for law in LAWS:
        found = [measure(law, n, samples) for n in SEEDS]
        cells = [f"{one.scores:.3f} / {one.differences:.3f}" for one in found]
        print(f"| {law.name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
