"""From a composed configuration to checked settings and objects, before any work.

Every group is checked against the signature of what its `_target_` names; there is no second copy of a schema.
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from typing import Any, get_type_hints

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from typeguard import TypeCheckError, check_type

from experiments.settings import Settings

GROUPS = ("component", "strategy", "model", "data", "optimizer")
PRESETS = ("experiment", "debug", "local")
ALLOWED = ("surrogates.", "experiments.")
SUPPLIED = {"component": {"strategy"}, "model": {"input_shape", "classes", "component"}}  # given by the program
# What does not change the numbers of a run, and so is left out of its hash.
NOT_HASHED = ("resume", "overwrite", "data.root", "data.download")


class ConfigError(ValueError):
    """The configuration is wrong; the message says where and what would be right."""


@dataclass(frozen=True)
class Choices:
    """The objects that a configuration selects; `component` and `model` wait for what the program supplies."""

    settings: Settings
    component: Any
    strategy: Any
    model: Any
    data: Any
    optimizer: Any


def choose(config: DictConfig) -> Choices:
    """Checks a composed configuration and builds what it selects; raises ConfigError."""
    plain = resolve(config)
    known = [*(field.name for field in fields(Settings)), *GROUPS]
    _refuse_unknown("", plain, known)
    settings = {key: plain[key] for key in plain if key not in GROUPS}
    _check_values("", settings, get_type_hints(Settings))
    built = {"settings": _build("", lambda: Settings(**settings))}
    for group in GROUPS:
        if not isinstance(plain.get(group), dict):
            raise ConfigError(f"{group} is not chosen; choose one with {group}=NAME")
        _check_group(group, plain[group])
        built[group] = _build(group, lambda group=group: instantiate(plain[group]))
    return Choices(**built)


def resolve(config: DictConfig) -> dict[str, Any]:
    """The configuration as plain containers; raises ConfigError for missing values and broken references."""
    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        raise ConfigError(f"{missing[0]} has no value; give it one on the command line: {missing[0]}=VALUE")
    try:
        plain = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(str(error).splitlines()[0]) from None
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items() if key not in PRESETS}


def config_hash(plain: dict[str, Any], without: Iterable[str] = NOT_HASHED) -> str:
    """A digest of a resolved configuration, less what does not change a run's numbers."""
    kept = json.loads(json.dumps(plain))
    for path in without:
        *parents, key = path.split(".")
        node = kept
        for parent in parents:
            node = node.get(parent, {})
        node.pop(key, None)
    canonical = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _check_group(group: str, node: dict[str, Any]) -> None:
    target = node.get("_target_")
    if not isinstance(target, str) or not target.startswith(ALLOWED):
        raise ConfigError(f"{group}._target_ must name something in {' or '.join(ALLOWED)}, got {target}")
    module, _, name = target.rpartition(".")
    try:
        callee = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        raise ConfigError(f"{group}._target_={target} does not exist") from None
    hints = get_type_hints(callee if is_dataclass(callee) else callee.__init__)
    known = [name for name in inspect.signature(callee).parameters if name not in SUPPLIED.get(group, ())]
    values = {key: value for key, value in node.items() if key not in ("_target_", "_partial_")}
    _refuse_unknown(f"{group}.", values, known)
    _check_values(f"{group}.", values, hints)


def _refuse_unknown(prefix: str, values: Iterable[str], known: list[str]) -> None:
    for key in values:
        if key not in known:
            raise ConfigError(f"there is no key {prefix}{key}{suggestion(key, known, prefix)}")


def suggestion(word: str, known: Iterable[str], prefix: str = "") -> str:
    """A hint at the nearest of the known words, or the list of them."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f"; did you mean {prefix}{near[0]}?"
    return f"; there are: {', '.join(known)}" if known else ""


def _check_values(prefix: str, values: dict[str, Any], hints: dict[str, Any]) -> None:
    for key, value in values.items():
        expected = hints[key]
        try:
            if isinstance(value, bool) and not _takes_bool(expected):
                raise TypeCheckError("bool")
            check_type(value, expected)
        except TypeCheckError:
            name = getattr(expected, "__name__", None) if isinstance(expected, type) else None
            raise ConfigError(f"{prefix}{key} must be {name or _readable(expected)}, got {value!r}") from None
        if isinstance(value, float) and math.isnan(value):
            raise ConfigError(f"{prefix}{key} must be a number, got {value}")


def _takes_bool(expected: Any) -> bool:
    return expected is bool or expected is Any or bool in getattr(expected, "__args__", ())


def _readable(expected: Any) -> str:
    text = str(expected).replace("typing.", "").replace("NoneType", "null").replace("None", "null")
    return text.replace("Literal[", "one of [")


def _build(group: str, make: Any) -> Any:
    try:
        return make()
    except Exception as error:
        cause = error.__cause__ or error
        if isinstance(cause, ValueError | TypeError):
            raise ConfigError(f"{group}.{cause}" if group else str(cause)) from None
        raise
