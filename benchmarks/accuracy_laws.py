"""How the accuracies of four strategies may vary from seed to seed, for `compare_coverage.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

VARIANTS = 4
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


def _shared_test_set(name: str, training: float) -> Law:
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
    _shared_test_set("shared test set, little training variation", 0.05),
    _shared_test_set("shared test set, much training variation", 0.3),
    Law("strongly skewed (2), unequal spreads", _exponential, held=False),
    Law("one run in ten stuck", _stuck, held=False),
)
