"""A run's `config.yaml` as plain data."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from experiments.tracking.strict_json import DamagedFile


def read_config(path: Path) -> Any:
    """The content of a YAML file; raises DamagedFile for one that is not YAML."""
    yaml: Any = import_module("yaml")  # by name, as it has no type hints
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_loader())
    except yaml.YAMLError as error:
        raise DamagedFile(path, f"is not YAML: {str(error).splitlines()[0]}") from None


@cache
def _loader() -> Any:
    """PyYAML's safe loader, in C if there is one; 1e-05 is a number as in YAML 1.2, while PyYAML reads it as text."""
    yaml: Any = import_module("yaml")

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
    )
    return Loader
