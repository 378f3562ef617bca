"""Estimates with their variance, and what follows from it: interval, p, equivalence and the seeds needed."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

import numpy as np

ALPHA = 0.05
LEVEL = 1 - ALPHA
FEWEST = 3  # seeds or pairs; fewer have no interval
_SMALLEST = 1e-100  # p values below are 0

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
    """A part of an estimate's variance, and its degrees of freedom."""

    variance: float
    freedom: int


@dataclass(frozen=True)
class Estimate:
    """A mean of n seeds or pairs, its variance over them (by side), and that over test samples, None if unknown."""

    mean: float
    n: int
    seeds: tuple[Part, ...]
    samples: Part | None = None

    @property
    def known(self) -> bool:
        """Whether the variance can be estimated: at least three seeds that do not all agree."""
        parts = self.seeds if self.samples is None else (*self.seeds, self.samples)
        return self.n >= FEWEST and sum(part.variance for part in parts) > 0

    def interval(self, scale: Scale = "number", level: float = LEVEL) -> ConfidenceInterval:
        """mean ± h, h^2 = t_f^2 v + t_g^2 w, with v the variance over seeds and w that over samples.

        t_f is Student's quantile with f = v^2 / sum(v_i^2 / f_i) degrees of freedom (Welch 1947); g is that of w.
        A share's ends are those of logit(mean) ± h / (mean (1 - mean)), so they lie within 0 and 1.
        The ends of a difference of shares are cut at -1 and 1.
        """
        from scipy.special import expit, logit

        if not self.known:
            return ConfidenceInterval(self.mean, math.nan, math.nan, self.n)
        half = self._half((1 - level) / 2)
        ends = np.array([self.mean - half, self.mean + half])
        if scale == "share":
            slope = self.mean * (1 - self.mean)
            ends = expit(logit(self.mean) + np.array([-half, half]) / slope)
        elif scale == "difference of shares":
            ends = ends.clip(-1, 1)
        return ConfidenceInterval(self.mean, float(ends[0]), float(ends[1]), self.n)

    def p(self) -> float:
        """Two-sided p of the mean being 0: 1 less the level of the interval that ends there."""
        return 2 * self._tail(abs(self.mean))

    def p_equivalent(self, margin: float) -> float:
        """The larger p of two one-sided tests: that the mean is below -margin, and above margin (Schuirmann 1987)."""
        distance = margin - abs(self.mean)
        return self._tail(distance) if distance > 0 else 1 - self._tail(-distance)

    def seeds_needed(self, half_width: float, level: float = LEVEL, most: int = 100_000) -> int | None:
        """The smallest n whose half-width is at most `half_width`, if the estimated variances are the true ones.

        More seeds do not change the part of the test samples. None if `most` seeds are too few, or without a variance.
        """
        if not self.known:
            return None
        counts = range(FEWEST, most + 1)
        tail = (1 - level) / 2
        place = bisect_left(counts, True, key=lambda n: self._with_seeds(n)._half(tail) <= half_width)
        return counts[place] if place < len(counts) else None

    def _with_seeds(self, n: int) -> Estimate:
        """The estimate that n seeds would give."""
        seeds = tuple(Part(part.variance * (part.freedom + 1) / n, n - 1) for part in self.seeds)
        return Estimate(self.mean, n, seeds, self.samples)

    def _half(self, tail: float) -> float:
        """The half-width of the interval that leaves out this share at either end."""
        from scipy.special import stdtrit

        variance = sum(part.variance for part in self.seeds)
        squares = sum(part.variance**2 / part.freedom for part in self.seeds)
        square = stdtrit(variance**2 / squares, tail) ** 2 * variance if variance else 0.0
        if self.samples is not None:
            square += stdtrit(self.samples.freedom, tail) ** 2 * self.samples.variance
        return math.sqrt(square)

    def _tail(self, distance: float) -> float:
        """The share at either end that an interval of this half-width leaves out."""
        from scipy.optimize import brentq

        if self._half(_SMALLEST) < distance:
            return 0.0
        log = brentq(lambda log: self._half(math.exp(log)) - distance, math.log(_SMALLEST), math.log(0.5))
        return math.exp(log)
