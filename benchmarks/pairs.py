"""Measures the ratio of two timings in interleaved pairs: the median and its 95 % interval.

A bound on a ratio holds if the interval's lower end is below it. Both ends are order statistics of the pairs, which
need no assumption about the distribution of times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

PAIRS = 25
ENOUGH = 15  # fewer pairs judge no bound: their interval is wide, or not one of 95 %


@dataclass(frozen=True)
class Ratio:
    """Our time over the peer's: medians of both times, and the median ratio with its interval."""

    name: str
    ours: float
    peer: float
    ratio: float
    low: float
    high: float
    bound: float
    pairs: int

    def row(self) -> str:
        """Returns a line of the Markdown table."""
        verdict = "too few pairs" if self.pairs < ENOUGH else "yes" if self.low < self.bound else "**no**"
        return (
            f"| {self.name} | {self.ours:.3g} | {self.peer:.3g} | {self.ratio:.2f} [{self.low:.2f}, {self.high:.2f}] "
            f"| {self.bound:g} | {verdict} |"
        )


HEADER = "| what | ours | peer | ratio [95 %] | bound | holds |\n|---|---|---|---|---|---|"


def compare(name: str, ours: Callable[[], float], peer: Callable[[], float], bound: float, pairs: int = PAIRS) -> Ratio:
    """Calls both in turn `pairs` times; each call returns a time, and the order in a pair alternates."""
    ours(), peer()
    times: list[tuple[float, float]] = []
    for index in range(pairs):
        if index % 2:
            b = peer()
            times.append((ours(), b))
        else:
            a = ours()
            times.append((a, peer()))
    ratios = sorted(a / b for a, b in times)
    rank = _rank(pairs)
    return Ratio(
        name,
        median(a for a, _ in times),
        median(b for _, b in times),
        median(ratios),
        ratios[rank],
        ratios[-1 - rank],
        bound,
        pairs,
    )


def _rank(n: int) -> int:
    """The largest k for which [x_(k+1), x_(n-k)] holds the median with probability 0.95 or more."""
    from math import comb

    tail, rank = 0.0, 0
    for k in range(n // 2):
        tail += comb(n, k) / 2**n
        if tail > 0.025:
            break
        rank = k
    return rank
