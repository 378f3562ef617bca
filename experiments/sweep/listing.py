"""Lists the jobs of a sweep: the product of its values and points, without the combinations in `leave_out`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString, RangeSweep
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from experiments.config.values import ConfigError

MOST_JOBS = 100_000
_MISSING = object()


def job_overrides(
    arguments: Sequence[str], params: Mapping[str, Any], points: Sequence[Mapping[str, Any]]
) -> list[list[str]]:
    """The overrides of every job. `arguments`, those of the command line, replace `params` of the same key.

    Each of `points` sets several keys together. Text in a point that lists values, such as `0.1,0.3` or `range(8)`, is
    one point for each value.
    Raises ConfigError if the command line also sets a key of `points`.
    Raises ConfigError, before the jobs are listed, if there are none or more than MOST_JOBS.
    """
    typed = OverridesParser.create().parse_overrides([*(f"{key}={value}" for key, value in params.items()), *arguments])
    values = {override.get_key_element(): _values(override) for override in typed}
    _refuse_both(values, points)
    listed = [[_expand(key, value) for key, value in point.items()] for point in points]
    _refuse_too_many(values.values(), listed)
    together = [one for point in listed for one in product(*point)] or [()]
    return [[*chosen, *point] for point in together for chosen in product(*values.values())]


def is_left_out(config: DictConfig, filters: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a job has all the values in one of `filters`. A list in a filter matches each of its values.

    Raises ConfigError if the job has no such key.
    """
    return any(all(_matches(config, key, wanted) for key, wanted in one.items()) for one in filters if one)


def refuse_settings_of_sweep(
    master: DictConfig, config: DictConfig, overrides: Sequence[str], keys: Sequence[str]
) -> None:
    """Raises ConfigError if a job changes the command's value of one of `keys`: they apply to the whole sweep."""
    for key in keys:
        if OmegaConf.select(config, key) != OmegaConf.select(master, key):
            raise ConfigError(
                f"{key} acts on the sweep as a whole, but is set by one of its jobs ({' '.join(overrides)}); "
                "run one command for each such option"
            )


def plain_list(node: Any, name: str) -> list[dict[str, Any]]:
    """`hydra.sweeper.points` or `leave_out` as plain mappings.

    Raises ConfigError if it is not a list of mappings.
    """
    listed = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
    if listed is None:
        return []
    if not isinstance(listed, list) or not all(isinstance(one, dict) and one for one in listed):
        raise ConfigError(f"hydra.sweeper.{name} must be a list of mappings from key to value, got {listed!r}")
    return [dict(_flat(one)) for one in listed]


def _values(override: Override) -> list[str]:
    key = override.get_key_element()
    if not override.is_sweep_override():
        return [str(override.input_line) if override.is_delete() else f"{key}={override.get_value_element_as_str()}"]
    if not override.is_discrete_sweep():
        raise HydraException(f"{override.input_line}: a sweep lists values; to search an interval see docs/sweeps.md")
    swept = override.value()
    if isinstance(swept, RangeSweep) and (not swept.step or _is_longer(swept.range())):
        fault = f"more than {MOST_JOBS:,} values, the most jobs of a sweep" if swept.step else "the step 0"
        raise ConfigError(f"{override.input_line} has {fault}")
    values = [f"{key}={value}" for value in override.sweep_string_iterator()]
    if not values:
        raise ConfigError(f"{override.input_line} lists no value, so the sweep has no job")
    return values


def _is_longer(values: Iterable[Any]) -> bool:
    """Whether there are more than MOST_JOBS values; reads at most one more than that."""
    return sum(1 for _ in islice(values, MOST_JOBS + 1)) > MOST_JOBS


def _refuse_too_many(values: Iterable[Sequence[str]], points: Sequence[Sequence[Sequence[str]]]) -> None:
    together = sum(math.prod(map(len, point)) for point in points) or 1
    count = together * math.prod(map(len, values))
    if count > MOST_JOBS:
        raise ConfigError(f"the sweep would have {count:,} jobs, and may have {MOST_JOBS:,}; list fewer values")


def _expand(key: str, value: Any) -> list[str]:
    """The overrides of a point's value: one, or one for each value that its text lists."""
    try:
        typed = OverridesParser.create().parse_override(f"{key}={value}") if isinstance(value, str) else None
    except HydraException:  # text that has to be quoted
        typed = None
    return [f"{key}={as_typed(value)}"] if typed is None or not typed.is_sweep_override() else _values(typed)


def _refuse_both(values: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> None:
    listed = {key for point in points for key in point}
    both = [key for key in values if key.lstrip("+") in listed]
    if both:
        raise ConfigError(
            f"{both[0]} is set on the command line and by hydra.sweeper.points; hydra.sweeper.points=[] drops these"
        )


def as_typed(value: Any) -> str:
    """A value as text for the command line."""
    if isinstance(value, str):
        is_word = re.fullmatch(r"[A-Za-z_][\w./-]*", value, re.ASCII)
        if is_word and value.lower() not in ("true", "false", "null", "nan", "inf"):
            return value
        return str(QuotedString(value, Quote.single).with_quotes())
    if isinstance(value, list):
        return f"[{','.join(map(as_typed, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _matches(config: DictConfig, key: str, wanted: Any) -> bool:
    found = config.hydra.runtime.choices.get(key, _MISSING)
    if found is _MISSING:
        found = OmegaConf.select(config, key, default=_MISSING)
    if found is _MISSING:
        raise ConfigError(f"hydra.sweeper.leave_out names {key}, a key that a job of this sweep does not have")
    return found in wanted if isinstance(wanted, list) else bool(found == wanted)


def _flat(point: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in point.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
