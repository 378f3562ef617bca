"""Grids of trials: the jobs of a pair, the grids' extension, and the trials that an extension adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from experiments.study.study_file import Pair
from experiments.sweep.listing import as_typed

Grid = Mapping[str, tuple[Any, ...]]
Trial = Mapping[str, Any]


@dataclass(frozen=True)
class Point:
    """A pair with the values of a grid and seeds: one job for each trial and seed."""

    pair: Pair
    grid: Grid
    seeds: tuple[int, ...]

    def jobs(self) -> Iterator[tuple[Pair, Trial]]:
        """Pair and trial of each job, in the order in which the sweep lists them."""
        for *values, _ in product(*self.grid.values(), self.seeds):
            yield self.pair, dict(zip(self.grid, values, strict=True))

    def text(self, settings: Sequence[str]) -> str:
        """The point as `hydra.sweeper.points` takes it; settings come last, because long folder names are cut."""
        listed = {**self.grid, "seed": self.seeds}
        values = [f"{key}: {as_typed(_values(own))}" for key, own in listed.items()]
        fixed, shared = ([text.replace("=", ": ", 1) for text in own] for own in (self.pair.overrides, settings))
        return f"{{{', '.join([*fixed, *values, *shared])}}}"


def _values(values: Sequence[Any]) -> Any:
    """One value, or the text that lists several."""
    return values[0] if len(values) == 1 else ",".join(map(as_typed, values))


def keys_at_edge(grid: Grid, trials: Sequence[Trial]) -> list[str]:
    """The keys with several positive numbers of which a trial has the lowest or the highest."""
    return [key for key, values in grid.items() if _is_scale(values) and _at_edge(key, values, trials)]


def _is_scale(values: Sequence[Any]) -> bool:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return len(values) > 1 and len(numbers) == len(values) and min(numbers) > 0


def _at_edge(key: str, values: Sequence[Any], trials: Sequence[Trial]) -> bool:
    return any(trial.get(key) in (min(values), max(values)) for trial in trials)


def extend(grid: Grid, keys: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """The grid with one more value at both ends of these keys."""
    return {key: _longer(values) if key in keys else values for key, values in grid.items()}


def extend_scales(grid: Grid) -> dict[str, tuple[Any, ...]]:
    """The grid with one more value at both ends of every key that can be extended."""
    return extend(grid, [key for key, values in grid.items() if _is_scale(values)])


def _longer(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Continues the ratio of the two outermost values, to two digits; whole numbers stay whole and above 0."""
    low, high = sorted(values)[:2], sorted(values)[:-3:-1]
    ends = [first * first / second for first, second in (low, high)]
    whole = all(isinstance(value, int) for value in values)
    rounded = [round(end) if whole else float(f"{end:.2g}") for end in ends]
    return (*values, *(end for end in rounded if end > 0 and end not in values))


def new_points(point: Point, old: Grid) -> list[Point]:
    """Points with the trials of `point` that the grid `old` lacks, each trial once."""
    keys, points = list(point.grid), []
    for at, key in enumerate(keys):
        added = tuple(value for value in point.grid[key] if value not in old[key])
        if added:
            later = {after: old[after] for after in keys[at + 1 :]}
            points.append(Point(point.pair, {**point.grid, key: added, **later}, point.seeds))
    return points
