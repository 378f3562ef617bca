"""A user's own options: the files of a folder that the command line adds with `--config-dir`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.conf_folder import CONF
from experiments.config.values import ConfigError


def refuse_hidden_options(config: Any) -> None:
    """Raises ConfigError for a file of an added folder that has the name of a shipped one: Hydra would not read it."""
    for source in config.hydra.runtime.config_sources:
        folder = Path(source.path)
        if source.schema == "file" and folder.resolve() != CONF.resolve() and source.provider != "main":
            refuse_shipped_names(folder)


def refuse_shipped_names(folder: Path) -> None:
    """The same for the files of one folder."""
    for file in sorted(folder.rglob("*.yaml")):
        if (CONF / file.relative_to(folder)).exists():
            raise ConfigError(f"{file} has the name of a shipped option and would not be read; rename it")
