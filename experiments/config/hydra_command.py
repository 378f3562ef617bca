"""Hydra's command line, as it is read here; Hydra itself is imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

VERSION_BASE = "1.3"
SWEEPS = ("-m", "--multirun")  # the flags that ask for a sweep


def run_hydra(conf: Path, task: Callable[[Any], Any]) -> None:
    """Has Hydra do what `sys.argv` asks for.

    It gets -m before all overrides, as it takes no override behind a flag that stands behind another one.
    """
    import hydra

    typed = sys.argv
    flags = [argument for argument in typed[1:] if argument in SWEEPS]
    sys.argv = [typed[0], *flags, *(argument for argument in typed[1:] if argument not in flags)]
    try:
        hydra.main(version_base=VERSION_BASE, config_path=str(conf), config_name="config")(task)()
    finally:
        sys.argv = typed
