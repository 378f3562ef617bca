"""Keeps a run going whose logger fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from experiments.tracking.loggers.logger import Logger


class Tolerant:
    """A logger that stops at its first error: the run continues, and its messages name the error."""

    def __init__(self, name: str, logger: Logger, say: Callable[[str], None]) -> None:
        self._name, self._say = name, say
        self._logger: Logger | None = logger

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Logs values by tag at a step."""
        self._attempt(lambda logger: logger.scalars(step, values), f"at step {step}")

    def close(self, success: bool | None) -> None:
        """Ends the log."""
        self._attempt(lambda logger: logger.close(success), "at the end")

    def _attempt(self, call: Callable[[Logger], None], when: str) -> None:
        if self._logger is None:
            return
        try:
            call(self._logger)
        except Exception as error:  # of another program: nothing is known about it
            self._logger = None
            fault = f"note: the logger {self._name} failed {when} ({describe(error)}) and gets no more values"
            self._say(f"{fault}; metrics.jsonl has all of them")


def describe(error: Exception) -> str:
    """Returns the kind and the first line of another program's error."""
    return ": ".join(filter(None, [type(error).__name__, str(error).strip().partition("\n")[0]]))
