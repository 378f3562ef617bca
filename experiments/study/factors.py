"""Checks the factors of a study's analysis of variance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.config.folder_names import override_key
from experiments.config.values import ConfigError, suggestion
from experiments.sweep.listing import as_typed


def check_factors(
    factors: Sequence[str], overrides: Iterable[str], grids: Mapping[str, Sequence[Any]], seeds: Sequence[int]
) -> None:
    """Checks that there are at least two factors, two levels of each in the overrides or the grids, and two seeds.

    Raises ConfigError if there are fewer.
    """
    levels: dict[str, list[Any]] = {key: list(values) for key, values in grids.items()}
    for override in overrides:
        levels.setdefault(override_key(override), []).append(override.partition("=")[2])
    if len(factors) < 2:
        raise ConfigError(f"variance needs at least two keys, got {', '.join(factors) or 'none'}")
    for factor in factors:
        if factor not in levels:
            raise ConfigError(f"variance: {factor} is in no pair and in no grid{suggestion(factor, levels)}")
        if len(set(map(as_typed, levels[factor]))) < 2:
            raise ConfigError(f"variance: {factor} has only the value {levels[factor][0]}; a factor needs at least two")
    if len(seeds) < 2:
        raise ConfigError("variance needs at least two choosing_seeds, whose differences give the residual")
