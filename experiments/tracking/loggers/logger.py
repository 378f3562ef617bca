"""The interface of loggers: a run's configuration, then its values, then how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class LoggedRun:
    """What a logger is made with.

    - `folder`: the run folder
    - `config`: the configuration by dotted key, each group by the name of its option
    - `first_step`: the first step that a resumed run logs; None for a new run
    - `id`: the logger's `id` in the earlier session of the run; None for a new run
    """

    folder: Path
    config: Mapping[str, object]
    first_step: int | None = None
    id: str | None = None


class Logger(Protocol):
    """Receives the values of one run."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Logs values by tag at a step; a step may come twice, with other tags."""

    def close(self, success: bool | None) -> None:
        """Ends the log: the run succeeded, failed, or (None) was interrupted and may be resumed."""


class ResumableLogger(Logger, Protocol):
    """A logger whose `id` finds the log of an interrupted run again; None if it needs none."""

    id: str | None
