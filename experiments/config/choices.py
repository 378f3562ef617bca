"""From a composed configuration to checked settings and objects, before any work.

Every group is checked against the signature of what its `_target_` names; there is no second copy of a schema.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, get_type_hints

from omegaconf import DictConfig
from torch import nn

from experiments.config.resolving import resolve
from experiments.config.settings import GROUPS, Settings
from experiments.config.values import ConfigError as ConfigError
from experiments.config.values import check_values, name_key, refuse_unknown
from experiments.optimizers.optimizer import Optimizer
from surrogates import Component, Strategy

QUESTION = "question"  # of a preset that asks the oracles instead of training
ALLOWED = ("surrogates.", "experiments.")
ROLES: dict[str, type] = {"component": Component, "strategy": Strategy, "model": nn.Module, "optimizer": Optimizer}
SPECIAL = ("_target_", "_partial_")
# Arguments that the program gives.
SUPPLIED = {"component": {"strategy"}, "model": {"input_shape", "classes", "component"}}
# Keys in which runs of one stack may differ.
STACKABLE = (
    "seed",
    "optimizer.lr",
    "optimizer.weight_decay",
    "optimizer.momentum",
    "strategy.temperature",
    "strategy.final_temperature",
)


@dataclass(frozen=True)
class Choices:
    """The objects that a configuration selects; `component` and `model` still lack the arguments in SUPPLIED.

    `plain` is the configuration itself, resolved, whole numbers made floats where floats are expected.
    """

    plain: dict[str, Any]
    settings: Settings
    component: Any
    strategy: Any
    model: Any
    data: Any
    optimizer: Any


def choose(config: DictConfig, may_import: bool = True) -> Choices:
    """Checks a composed configuration and builds what it selects; raises ConfigError.

    `may_import`: whether a module outside this program that a `_target_` names is imported, which runs its code;
    without it such a module must be imported already. Not for configurations that somebody else may have written.
    """
    plain = resolve(config)
    if QUESTION in plain:
        raise ConfigError("a preset that asks a question is asked once; leave -m away")
    refuse_removed(plain)
    known = [*(field.name for field in fields(Settings)), *GROUPS]
    refuse_unknown("", plain, known)
    settings = {key: plain[key] for key in plain if key not in GROUPS}
    plain |= check_values("", settings, _signature(Settings)[1])
    built = {"settings": _build("", settings, lambda: Settings(**settings))}
    for group in GROUPS:
        if not isinstance(plain.get(group), dict):
            raise ConfigError(f"{group} is not chosen; choose one with {group}=NAME")
        callee, plain[group] = _check_group(group, plain[group], may_import)
        values = {key: value for key, value in plain[group].items() if key not in SPECIAL}
        make = partial(partial, callee) if group in SUPPLIED else callee
        built[group] = _build(group, values, partial(make, **values))
    return Choices(plain, **built)


def refuse_removed(config: Mapping[Any, Any]) -> None:
    """Raises ConfigError for the engine that compiled the step of a stack."""
    if config.get("engine") == "compiled":
        raise ConfigError("engine=compiled was removed; use engine=stacked, which trains the same runs together")


def _check_group(group: str, node: dict[str, Any], may_import: bool) -> tuple[Any, dict[str, Any]]:
    """The class that the node's `_target_` names, and the node, its values checked against the class's signature."""
    target = node.get("_target_")
    if not isinstance(target, str) or "." not in target:
        raise ConfigError(f"{group}._target_ must name a class as MODULE.CLASS, got {target}")
    module = target.rpartition(".")[0]
    if not (may_import or target.startswith(ALLOWED) or module in sys.modules):
        raise ConfigError(f"{group}._target_={target} is no part of hardgrad; import {module} first, if you trust it")
    callee = _target_class(group, target)
    waits = group in SUPPLIED
    if node.get("_partial_", False) is not waits:
        raise ConfigError(f"{group}._partial_ must be {'true' if waits else 'left out'}")
    parameters, hints = _signature(callee)
    known = [name for name in parameters if name not in SUPPLIED.get(group, ())]
    special = {key: value for key, value in node.items() if key in SPECIAL}
    values = {key: value for key, value in node.items() if key not in SPECIAL}
    refuse_unknown(f"{group}.", values, known)
    return callee, special | check_values(f"{group}.", values, hints)


@cache
def _signature(callee: Any) -> tuple[list[str], dict[str, Any]]:
    """The names of its parameters, and their annotations."""
    hints = get_type_hints(callee if is_dataclass(callee) else callee.__init__)
    return list(inspect.signature(callee).parameters), hints


def _target_class(group: str, target: str) -> Any:
    """The class that a `_target_` names; anything but a class of the group's kind is refused, and never called."""
    module, _, name = target.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        raise ConfigError(f"{group}._target_={target} does not exist") from None
    base = ROLES.get(group)
    fits = isinstance(found, type) and (issubclass(found, base) if base else hasattr(found, "load"))
    if not fits or found is base:
        raise ConfigError(f"{group}._target_={target} is no {group}")
    return found


def _build(group: str, keys: Iterable[str], make: Any) -> Any:
    try:
        return make()
    except Exception as error:
        cause = error.__cause__ or error
        if isinstance(cause, ValueError | TypeError):
            raise ConfigError(name_key(group, keys, str(cause))) from None
        raise
