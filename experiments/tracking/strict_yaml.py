"""Reads and writes YAML without aliases, a few levels deep; the file's size bounds the time of reading."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from experiments.tracking.atomic_file import replacing
from experiments.tracking.regular_file import read_bytes
from experiments.tracking.strict_json import DamagedFile

DEEPEST = 20  # levels of nesting
LONGEST = 4096  # characters of one value; no path is longer


def read_yaml(path: Path) -> Any:
    """Reads a file as plain containers.

    Raises DamagedFile if the file is not YAML, or holds aliases, deep nesting or too long a value.
    Raises OSError if the file cannot be read.
    """
    yaml: Any = import_module("yaml")  # by name, as it has no type hints
    try:
        text = read_bytes(path).decode()
        _check_events(path, text)
        return yaml.load(text, Loader=_loader())
    except DamagedFile:
        raise
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:  # a broken date, a list as a key
        raise DamagedFile(path, f"is not YAML: {str(error).partition(chr(10))[0]}") from None


def write_yaml(path: Path, content: Any) -> None:
    """Writes plain containers or OmegaConf's, whole or not at all; interpolations stay unresolved."""
    with replacing(path) as file:
        file.write(OmegaConf.to_yaml(content).encode())


def _check_events(path: Path, text: str) -> None:
    """Checks the text piece by piece, before anything is built from it."""
    yaml: Any = import_module("yaml")
    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise DamagedFile(path, "holds a YAML alias, which no file of a run has")
        if depth > DEEPEST:
            raise DamagedFile(path, f"is nested more than {DEEPEST} levels deep, which no file of a run is")
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > LONGEST:
            raise DamagedFile(
                path, f"holds a value of {len(event.value):,} characters; at most {LONGEST:,} are allowed"
            )


@cache
def _loader() -> Any:
    """PyYAML's safe loader, in C if there is one; 1e-05 is a number as in YAML 1.2, while PyYAML reads it as text."""
    yaml: Any = import_module("yaml")

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
    )
    return Loader
