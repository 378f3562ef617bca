"""The keys that can be set, read from the options in conf/, and a run's own as columns of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from experiments.config.config_hash import NOT_HASHED
from experiments.config.settings import GROUPS, Settings
from experiments.tracking.flat_config import flatten
from experiments.tracking.strict_yaml import read_yaml


def options(conf: Path, group: str) -> list[str]:
    """The names of a group's options."""
    return sorted(path.stem for path in (conf / group).glob("*.yaml"))


@cache
def group_keys(conf: Path) -> tuple[str, ...]:
    """The dotted keys of all options of all groups."""
    keys: dict[str, None] = {}
    for group in GROUPS:
        for option in options(conf, group):
            keys |= dict.fromkeys(option_keys(conf, group, option))
    return tuple(keys)


def option_keys(conf: Path, group: str, option: str) -> list[str]:
    """The dotted keys of one option."""
    text = (conf / group / f"{option}.yaml").read_text()
    return [f"{group}.{key}" for key in re.findall(r"^([a-z]\w*):", text, re.MULTILINE)]


def option_values(conf: Path, group: str, option: str) -> dict[str, Any]:
    """The keys and values in one option's file; empty if there is no such file."""
    path = conf / group / f"{option}.yaml"
    return dict(read_yaml(path)) if path.is_file() else {}


def hyperparameters(plain: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, Any]:
    """A resolved configuration as a table of runs shows it: groups by their option's name, no bookkeeping.

    Without the name in `options`, an option has that of its module.
    """
    flat = {key: value for key, value in flatten(plain).items() if key not in NOT_HASHED}
    own = {key: value for key, value in flat.items() if not key.rpartition(".")[2].startswith("_")}
    return {**{group: options.get(group) or option_name(plain[group]) for group in GROUPS}, **own}


def option_name(node: Mapping[str, Any]) -> str:
    """The option that a group's node is: the stem of the module its target lives in."""
    return str(node["_target_"]).split(".")[-2]


def settable_keys(conf: Path) -> list[str]:
    """Every key of the command line, except Hydra's own."""
    return [*(field.name for field in fields(Settings)), *GROUPS, "experiment", "debug", *group_keys(conf)]
