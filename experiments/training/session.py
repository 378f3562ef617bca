"""One process's work on a claimed run: trains, evaluates, logs, saves, and can be stopped at any step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from experiments.measuring.facts import facts
from experiments.measuring.nonfinite import Diverged
from experiments.terminal.console import Progress
from experiments.training.denormals import denormals_as_zero
from experiments.training.interruption import Interrupted, stop_signals
from experiments.training.record import Record
from experiments.training.trainer import Trainer
from experiments.training.validation import Validation

CHECKPOINT_SECONDS = 5.0  # evaluations write a checkpoint, but not more often than this


class Session:
    """Brings a run to its end; `train` returns the result."""

    def __init__(
        self, trainer: Trainer, record: Record, watch: Callable[[int, Mapping[str, float]], None] | None = None
    ) -> None:
        self.trainer, self.record, self.watch = trainer, record, watch
        self.validate = Validation(trainer.model, trainer.data, trainer.settings.seed)
        self._facts = facts(trainer.model, trainer.data)
        self._told = False
        self._saved_at = time.monotonic()

    def train(self, title: str) -> dict[str, Any]:
        """Goes on to the last step; raises Diverged or Interrupted."""
        trainer, last = self.trainer, self.trainer.settings.max_steps
        progress = Progress(title, last, trainer.step, self.record.folder)
        try:
            with denormals_as_zero(), stop_signals() as stop:
                while trainer.step < last:
                    values = self._advance()
                    if values:
                        progress.update(trainer.step, values)
                        if self.watch is not None:
                            self.watch(trainer.step, values)
                    if stop.signum is not None:
                        self.save()
                        raise Interrupted(stop.signum)
        finally:
            progress.close()
        return self._finish()

    def _advance(self) -> dict[str, float]:
        """One step, what is due after it, and what was logged."""
        trainer, settings = self.trainer, self.trainer.settings
        try:
            values = trainer.advance() or {}
        except Diverged as diverged:
            self.record.write(trainer.step, diverged.values)  # the curve shows where it broke off
            raise
        self._tell_fault()
        last = trainer.step == settings.max_steps
        evaluates = last or trainer.step % settings.eval_every == 0
        if evaluates:
            values |= self.validate(trainer.step, last)
        if values:
            self.record.write(trainer.step, values)
        if self.record.diagnostics.due(trainer.step):
            self.record.diagnose(trainer.step, trainer.model, trainer.batch(trainer.step + 1))
        if evaluates and time.monotonic() - self._saved_at > CHECKPOINT_SECONDS:
            self.save()
        return values

    def _tell_fault(self) -> None:
        """Says once, by a policy that goes on, what was not finite first."""
        if self.trainer.fault and not self._told:
            self._told = True
            self.record.say_fault(self.trainer.fault, self.trainer.settings.on_nonfinite)

    def save(self) -> None:
        """Writes a checkpoint, and what was logged so far before it, and the time."""
        self._save()
        self.record.note_time()

    def _save(self) -> None:
        state = {"trainer": self.trainer.state(), "best": self.validate.best, "outputs": self.validate.outputs}
        self.record.save(state)
        self._saved_at = time.monotonic()

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from a saved checkpoint."""
        self.trainer.restore(state["trainer"])
        self.validate.best, self.validate.outputs = state["best"], state["outputs"]

    def _finish(self) -> dict[str, Any]:
        """Saves both models and writes `result.json`."""
        best = self.validate.best_tested()
        self._save()
        trainer, model = self.trainer, self.validate.best["model"]
        return self.record.finish(best, model, "single", trainer.record, trainer.skipped, self._facts)
