"""Estimates with their variance, and what follows from it: interval, p, equivalence and the seeds needed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

LEVEL = 0.95
ALPHA = 1 - LEVEL
FEWEST = 3  # seeds or pairs; fewer have no interval

# What is estimated: a share (0 to 1), a difference of two shares (-1 to 1), or any number.
Scale = Literal["share", "difference of shares", "number"]


@dataclass(frozen=True)
class ConfidenceInterval:
    """An estimate, the ends of its confidence interval, and the number n of seeds or pairs.

    The ends are NaN if there is no interval: below three seeds, or if all values agree.
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2

    @property
    def missing(self) -> bool:
        """Whether there is no interval."""
        return math.isnan(self.low)

    def why_missing(self, noun: str) -> str:
        """Says why there is no interval; `noun` is what n counts: run or pair."""
        if self.n < FEWEST:
            return f"{self.n} {noun}{'s' * (self.n != 1)}: no interval"
        return f"all {self.n} {noun}s agree, which shows nothing about the spread: no interval"


@dataclass(frozen=True)
class Part:
    """A part of an estimate's variance, its degrees of freedom, and whether more seeds make it smaller."""

    variance: float
    freedom: int
    of_seeds: bool = True


@dataclass(frozen=True)
class Estimate:
    """A mean of n seeds or pairs, and the parts of its variance."""

    mean: float
    n: int
    parts: tuple[Part, ...]

    @property
    def variance(self) -> float:
        """Variance of the mean."""
        return sum(part.variance for part in self.parts)

    @property
    def known(self) -> bool:
        """Whether the variance can be estimated: at least three seeds that do not all agree."""
        return self.n >= FEWEST and self.variance > 0

    @property
    def freedom(self) -> float:
        """Degrees of freedom, (sum v)^2 / sum(v^2 / f) over the parts (Satterthwaite 1946)."""
        return self.variance**2 / sum(part.variance**2 / part.freedom for part in self.parts)

    def interval(self, scale: Scale = "number", level: float = LEVEL) -> ConfidenceInterval:
        """mean ± t sqrt(variance), t with `freedom` degrees of freedom.

        A share's ends are those of logit(mean) ± t sqrt(variance) / (mean (1 - mean)), so they lie within 0 and 1.
        The ends of a difference of shares are cut at -1 and 1.
        """
        from scipy.special import expit, logit, stdtrit

        if not self.known:
            return ConfidenceInterval(self.mean, math.nan, math.nan, self.n)
        half = float(stdtrit(self.freedom, (1 + level) / 2)) * math.sqrt(self.variance)
        ends = np.array([self.mean - half, self.mean + half])
        if scale == "share":
            slope = self.mean * (1 - self.mean)
            ends = expit(logit(self.mean) + np.array([-half, half]) / slope)
        elif scale == "difference of shares":
            ends = ends.clip(-1, 1)
        return ConfidenceInterval(self.mean, float(ends[0]), float(ends[1]), self.n)

    def p(self) -> float:
        """Two-sided p of the mean being 0; needs a known variance."""
        return 2 * self._tail(abs(self.mean))

    def p_equivalent(self, margin: float) -> float:
        """The larger p of two one-sided tests: that the mean is below -margin, and above margin (Schuirmann 1987)."""
        return self._tail(margin - abs(self.mean))

    def _tail(self, distance: float) -> float:
        """P(T > distance / sqrt(variance))."""
        from scipy.special import stdtr

        return float(stdtr(self.freedom, -distance / math.sqrt(self.variance)))

    def seeds_needed(self, half_width: float, level: float = LEVEL, most: int = 100_000) -> int | None:
        """The smallest n whose half-width is at most `half_width`, if the estimated variances are the true ones.

        More seeds do not change the part of the test samples. None if `most` seeds are too few, or without a variance.
        """
        from scipy.special import stdtrit

        if not self.known:
            return None
        counts = np.arange(FEWEST, most + 1)
        parts = [self._with_seeds(part, counts) for part in self.parts]
        variance = sum(variance for variance, _ in parts)
        freedom = variance**2 / sum(own**2 / free for own, free in parts)
        enough = stdtrit(freedom, (1 + level) / 2) * np.sqrt(variance) <= half_width
        return int(counts[enough.argmax()]) if enough.any() else None

    def _with_seeds(self, part: Part, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The variance and the degrees of freedom of a part by number of seeds."""
        if part.of_seeds:
            return part.variance * (part.freedom + 1) / counts, counts - 1
        return np.full(counts.shape, part.variance), np.full(counts.shape, part.freedom)
