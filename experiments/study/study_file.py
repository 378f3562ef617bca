"""Reads and checks the file of a study: question, expectation, pairs, grids, seeds, budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.errors import HydraException

from experiments.config.folder_names import override_key
from experiments.config.keys import options
from experiments.config.values import ConfigError, check_values, refuse_unknown, suggestion
from experiments.study.factors import check_factors
from experiments.sweep.listing import job_overrides
from experiments.tracking.flat_config import flatten
from experiments.tracking.strict_yaml import read_yaml

REQUIRED: dict[str, Any] = {
    "question": str,
    "expectation": str,
    "pairs": dict[str, dict[str, Any]],
    "grids": dict[str, list[Any]],
    "choosing_seeds": list[int] | str,
    "reporting_seeds": list[int] | str,
    "budget": dict[str, int],
}
OPTIONAL: dict[str, Any] = {
    "settings": dict[str, Any],
    "reporting_settings": dict[str, Any],
    "baseline": str,
    "margin": float,
    "variance": list[str],
}
BUDGET = ("runs", "extensions")


@dataclass(frozen=True)
class Pair:
    """A component under a strategy, with their options: a name, and the overrides that select it."""

    name: str
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """A checked study.

    - `settings`: overrides of all runs; `reporting_settings`: further ones of the reporting stage
    - `grids`: the values tried of each key
    - `margin`: the largest difference that does not matter, in points; None if nothing is to be called equivalent
    - `variance`: the factors of the analysis of variance; empty if there is none
    - `runs`: the most runs of the study; `extensions`: how often grids may be extended
    - `content`: the file as it was read
    """

    question: str
    expectation: str
    settings: tuple[str, ...]
    reporting_settings: tuple[str, ...]
    pairs: tuple[Pair, ...]
    grids: Mapping[str, tuple[Any, ...]]
    choosing_seeds: tuple[int, ...]
    reporting_seeds: tuple[int, ...]
    baseline: str
    margin: float | None
    variance: tuple[str, ...]
    runs: int
    extensions: int
    content: Mapping[str, Any]


def study_path(name: str, conf: Path) -> Path:
    """The file of a shipped study, or a YAML file of the user's own; raises ConfigError if there is none."""
    own = name.endswith((".yaml", ".yml"))
    path = Path(name) if own else conf / "study" / f"{name}.yaml"
    if not path.is_file():
        known = "" if own else suggestion(name, options(conf, "study"))
        raise ConfigError(f"there is no {'file' if own else 'study'} {name}{known}")
    return path


def read_study(path: Path) -> Study:
    """Reads a study; raises ConfigError, with the key, or DamagedFile if the file is not YAML."""
    content = read_yaml(path)
    try:
        return _check(content)
    except (ConfigError, HydraException) as error:
        raise ConfigError(f"{path}: {error}") from None


def _check(content: Any) -> Study:
    if not isinstance(content, dict):
        raise ConfigError(f"a study maps keys to values; its keys are {', '.join((*REQUIRED, *OPTIONAL))}")
    refuse_unknown("", content, [*REQUIRED, *OPTIONAL])
    check_values("", content, REQUIRED | OPTIONAL)
    refuse_unknown("budget.", content.get("budget", {}), list(BUDGET))
    grids = {f"grids.{key}": values for key, values in content.get("grids", {}).items()}
    budget = {f"budget.{key}": str(content.get("budget", {}).get(key, "")) for key in BUDGET}
    for key, value in {**{key: content.get(key) for key in REQUIRED}, **grids, **budget}.items():
        if not value:
            raise ConfigError(f"{key} is missing or empty")
    study = Study(
        content["question"].strip(),
        content["expectation"].strip(),
        _overrides("settings", content.get("settings", {})),
        _overrides("reporting_settings", content.get("reporting_settings", {})),
        tuple(pair for name, overrides in content["pairs"].items() for pair in _pairs(name, overrides)),
        {key: tuple(values) for key, values in content["grids"].items()},
        _seeds("choosing_seeds", content["choosing_seeds"]),
        _seeds("reporting_seeds", content["reporting_seeds"]),
        content.get("baseline", "subgradient"),
        content.get("margin"),
        tuple(content.get("variance", ())),
        content["budget"]["runs"],
        content["budget"]["extensions"],
        content,
    )
    if study.margin is not None and not study.margin > 0:
        raise ConfigError(f"margin must be above 0, got {study.margin}")
    _refuse_repeats("choosing_seeds and reporting_seeds", (*study.choosing_seeds, *study.reporting_seeds))
    for key, values in study.grids.items():
        _refuse_repeats(f"grids.{key}", values)
    for pair in study.pairs:
        fixed = map(override_key, (*pair.overrides, *study.settings, *study.reporting_settings))
        _refuse_repeats(f"pair {pair.name}, settings and grids", [*fixed, *study.grids, "seed"])
    _refuse_repeats("variance", study.variance)
    if "variance" in content:
        overrides = [text for pair in study.pairs for text in pair.overrides]
        check_factors(study.variance, overrides, study.grids, study.choosing_seeds)
    return study


def _seeds(key: str, value: Any) -> tuple[int, ...]:
    """The seeds of a list, or of text such as `range(8)`."""
    if isinstance(value, list):
        return tuple(value)
    try:
        return tuple(int(override.partition("=")[2]) for (override,) in job_overrides([], {}, [{"seed": value}]))
    except ValueError:
        raise ConfigError(f"{key} must be whole numbers, such as [100, 101] or range(8), got {value!r}") from None


def _overrides(name: str, node: Mapping[str, Any]) -> tuple[str, ...]:
    first, *more = job_overrides([], {}, [dict(flatten(node))])
    if more:
        raise ConfigError(f"{name} sets one value of each key; text with a comma lists several")
    return tuple(first)


def _pairs(name: str, node: Mapping[str, Any]) -> list[Pair]:
    """One pair, or one for each value that a text such as `ste,smooth` lists; these values are added to the name."""
    listed = job_overrides([], {}, [dict(flatten(node))])
    varied = [index for index, values in enumerate(zip(*listed, strict=True)) if len(set(values)) > 1]
    return [Pair(" ".join([*(own[index].partition("=")[2] for index in varied), name]), tuple(own)) for own in listed]


def _refuse_repeats(where: str, values: Iterable[Any]) -> None:
    listed = list(values)
    twice = [value for value in listed if listed.count(value) > 1]
    if twice:
        raise ConfigError(f"{where}: {twice[0]} is given twice")
