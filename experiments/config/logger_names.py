"""Checks the name of a logger before anything runs."""

from __future__ import annotations

from importlib.util import find_spec

from experiments.terminal.extras import install
from experiments.tracking.loggers.names import ADAPTERS, TENSORBOARD, logger_class


def require_logger(name: str) -> None:
    """Raises ValueError if there is no such logger, or if its package is not installed."""
    if name in ADAPTERS:
        found = find_spec(name)
        if found is None or found.origin is None:  # a folder of that name has no origin
            raise ValueError(f"loggers={name} needs the package {name}; {install(name)}")
    elif "." in name:
        try:
            logger_class(name)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"loggers={name} is no class that can be imported ({error})") from None
    elif name != TENSORBOARD:
        raise ValueError(f"loggers must be among {TENSORBOARD}, {', '.join(ADAPTERS)} and MODULE.CLASS, got {name!r}")
