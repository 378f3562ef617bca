"""Reads and checks the file of a study: question, expectation, pairs, grids, seeds, budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hydra.errors import HydraException

from experiments.config.folder_names import override_key
from experiments.config.keys import options
from experiments.config.values import ConfigError, refuse_unknown, suggestion
from experiments.sweep.listing import as_typed, job_overrides
from experiments.tracking.flat_config import flatten
from experiments.tracking.strict_yaml import read_yaml

REQUIRED = {
    "question": str,
    "expectation": str,
    "pairs": dict,
    "grids": dict,
    "choosing_seeds": (list, str, int),
    "reporting_seeds": (list, str, int),
    "budget": dict,
}
OPTIONAL = {"settings": dict, "reporting_settings": dict, "baseline": str}
BUDGET = ("runs", "extensions")

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Pair:
    """A component under a strategy, with their options: a name and the overrides that select it."""

    name: str
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """A checked study file.

    - `settings`: overrides of all runs; `reporting_settings`: further ones of the reporting stage
    - `grids`: the values tried of each key
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
    runs: int
    extensions: int
    content: Mapping[str, Any]


def study_path(name: str, conf: Path) -> Path:
    """The file of a shipped study, or a YAML file of the user's own; raises ConfigError if there is none."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else conf / "study" / f"{name}.yaml"
    if path.is_file():
        return path
    if path.suffix and str(path) == name:
        raise ConfigError(f"there is no file {name}")
    raise ConfigError(f"there is no study {name}{suggestion(name, options(conf, 'study'))}")


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
    for key, kind in {**REQUIRED, **OPTIONAL}.items():
        if key in REQUIRED and not content.get(key):
            raise ConfigError(f"{key} is missing or empty")
        if key in content and (not isinstance(content[key], kind) or isinstance(content[key], bool)):
            raise ConfigError(f"{key} has the wrong form: {content[key]!r}")
    choosing, reporting = (_seeds(key, content[key]) for key in ("choosing_seeds", "reporting_seeds"))
    if set(choosing) & set(reporting):
        both = sorted(set(choosing) & set(reporting))
        raise ConfigError(f"seed {both[0]} chooses and is reported; choosing_seeds and reporting_seeds must differ")
    study = Study(
        content["question"].strip(),
        content["expectation"].strip(),
        tuple(_overrides("settings", content.get("settings", {}))),
        tuple(_overrides("reporting_settings", content.get("reporting_settings", {}))),
        tuple(pair for name, node in content["pairs"].items() for pair in _pairs(str(name), node)),
        {str(key): _grid(str(key), values) for key, values in content["grids"].items()},
        choosing,
        reporting,
        content.get("baseline", "subgradient"),
        *_budget(content["budget"]),
        content,
    )
    for pair in study.pairs:
        names = map(override_key, (*pair.overrides, *study.settings, *study.reporting_settings))
        _refuse_repeats(f"pair {pair.name}", [*names, *study.grids, "seed"])
    return study


def _seeds(key: str, value: Any) -> tuple[int, ...]:
    """The seeds of a list, a number, or text such as `range(8)`."""
    text = ",".join(map(str, value)) if isinstance(value, list) else value
    try:
        seeds = tuple(int(seed.partition("=")[2]) for (seed,) in job_overrides([], {}, [{"seed": text}]))
    except (ValueError, HydraException):
        raise ConfigError(f"{key} must be whole numbers, such as [100, 101] or range(8), got {value!r}") from None
    _refuse_repeats(key, seeds)
    return seeds


def _overrides(name: str, node: Any) -> list[str]:
    if not isinstance(node, dict):
        raise ConfigError(f"{name} must map keys to values, got {node!r}")
    return [f"{key}={as_typed(value)}" for key, value in flatten(node).items()]


def _pairs(name: str, node: Any) -> list[Pair]:
    """One pair, or one for each value that a text such as `ste,smooth` lists; these values are added to the name."""
    if not isinstance(node, dict) or not node:
        raise ConfigError(f"pair {name} must map keys to values, got {node!r}")
    listed = job_overrides([], {}, [dict(flatten(node))])
    varied = [index for index, values in enumerate(zip(*listed, strict=True)) if len(set(values)) > 1]
    return [Pair(" ".join([*(one[index].partition("=")[2] for index in varied), name]), tuple(one)) for one in listed]


def _grid(key: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list) or not values:
        raise ConfigError(f"grids.{key} must list at least one value, got {values!r}")
    _refuse_repeats(f"grids.{key}", values)
    return tuple(values)


def _budget(node: Mapping[str, Any]) -> tuple[int, int]:
    refuse_unknown("budget.", node, list(BUDGET))
    for key in BUDGET:
        if not isinstance(node.get(key), int) or isinstance(node[key], bool) or node[key] < 0:
            raise ConfigError(f"budget.{key} must be a whole number, got {node.get(key)!r}")
    return node["runs"], node["extensions"]


def _refuse_repeats(where: str, values: Iterable[Any]) -> None:
    listed = list(values)
    twice = [value for value in listed if listed.count(value) > 1]
    if twice:
        raise ConfigError(f"{where}: {twice[0]} is given twice")
