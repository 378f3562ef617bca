"""A composed configuration as plain containers."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.config.values import ConfigError
from experiments.tracking.flat_config import flatten

PRESETS = ("experiment", "debug", "local")


def resolve(config: DictConfig) -> dict[str, Any]:
    """The configuration without Hydra's part and the names of presets.

    Raises ConfigError for missing values and broken references.
    """
    keys = [str(key) for key in config if key not in (*PRESETS, "hydra")]
    try:
        return {key: _resolve_key(config, key) for key in keys}
    except OmegaConfBaseException as error:
        where = f"{error.full_key}: " if error.full_key else ""
        raise ConfigError(f"{where}{str(error).splitlines()[0]}") from None


def _resolve_key(config: DictConfig, key: str) -> Any:
    missing = [key] if OmegaConf.is_missing(config, key) else []
    value = None if missing else config[key]
    if OmegaConf.is_config(value):
        unresolved: Any = OmegaConf.to_container(value, resolve=False)
        missing = [name for name, own in flatten({key: unresolved}).items() if own == "???"]
        value = None if missing else OmegaConf.to_container(value, resolve=True)
    if missing:
        raise ConfigError(f"{missing[0]} has no value; give it one on the command line: {missing[0]}=VALUE")
    return value
