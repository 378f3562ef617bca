"""The keys that can be set, read from the options in conf/."""

from __future__ import annotations

import re
from dataclasses import fields
from functools import cache
from pathlib import Path

from experiments.config import GROUPS
from experiments.settings import Settings


def options(conf: Path, group: str) -> list[str]:
    """The names of a group's options."""
    return sorted(path.stem for path in (conf / group).glob("*.yaml"))


@cache
def group_keys(conf: Path) -> tuple[str, ...]:
    """The dotted keys of all options of all groups: what one run has and another lacks is still a column of both."""
    keys: dict[str, None] = {}
    for group in GROUPS:
        for option in options(conf, group):
            text = (conf / group / f"{option}.yaml").read_text()
            keys |= {f"{group}.{key}": None for key in re.findall(r"^(\w+):", text, re.MULTILINE) if key != "_partial_"}
    return tuple(keys)


def settable_keys(conf: Path) -> list[str]:
    """Everything that may stand on the left of = on the command line, but for Hydra's own keys."""
    own = [key for key in group_keys(conf) if not key.endswith("_target_")]
    return [field.name for field in fields(Settings)] + [*GROUPS, "experiment", "debug"] + own
