"""One process's work on a group of claimed runs that train as one stack; `training/session.py` does it for one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.measuring.facts import facts
from experiments.stacked.together import together
from experiments.stacked.trainer import StackedTrainer, Values
from experiments.stacked.validation import StackedValidation
from experiments.terminal.console import Progress
from experiments.training.denormals import denormals_as_zero
from experiments.training.interruption import Interrupted, stop_signals
from experiments.training.record import Record
from experiments.training.session import CHECKPOINT_SECONDS

SHARE = 0.03  # of the time that may go into checkpoints: one costs a file a replica


class StackedSession:
    """Brings a group of runs to its end; `results[r]` is what replica r gave, unless it diverged.

    A replica without a record only keeps its place.
    """

    def __init__(
        self,
        trainer: StackedTrainer,
        records: Mapping[int, Record],
        lines: Mapping[int, Progress],
        failed: Callable[[int], None],
    ) -> None:
        self.trainer, self.records, self._lines, self._failed = trainer, records, lines, failed
        self.validate = StackedValidation(trainer)
        self._facts = facts(trainer.template, trainer.data)
        self.results: dict[int, dict[str, Any]] = {}
        self._diagnosed = {r for r, record in records.items() if record.diagnostics.kinds}
        self._pause = CHECKPOINT_SECONDS
        self._saved_at = time.monotonic()

    def train(self) -> None:
        """Goes on to the last step, or until no replica is left; raises Interrupted."""
        trainer, last = self.trainer, self.trainer.settings.max_steps
        with denormals_as_zero(), stop_signals() as stop:
            while trainer.step < last and self.alive:
                self._advance()
                if stop.signum is not None:
                    self.save()
                    raise Interrupted(stop.signum)
        self._finish()

    @property
    def alive(self) -> list[int]:
        """The replicas with a record that have not diverged."""
        out = self.trainer.diverged
        return [r for r in self.records if r not in out]

    def _advance(self) -> None:
        """One step, and what is due after it."""
        trainer, settings = self.trainer, self.trainer.settings
        known = set(trainer.faults)
        values: list[Values] = trainer.advance() or []
        for r in self.records.keys() & trainer.faults.keys() - known:
            if r in trainer.diverged:
                self.records[r].write(trainer.step, values[r])  # the curve shows where it broke off
                self._failed(r)
            else:
                self.records[r].say_fault(trainer.faults[r], settings.on_nonfinite)
        last = trainer.step == settings.max_steps
        evaluates = last or trainer.step % settings.eval_every == 0
        if evaluates:
            scores = self.validate(trainer.step, last)
            values = [{**own, **scored} for own, scored in zip(values or [{}] * len(scores), scores, strict=True)]
        if values:
            for r in self.alive:
                self.records[r].write(trainer.step, values[r])
                self._lines[r].update(trainer.step, values[r])
        self._diagnose()
        if evaluates and time.monotonic() - self._saved_at > self._pause:
            self.save()

    def _diagnose(self) -> None:
        """Measures each replica that asks for it, as a model alone."""
        trainer = self.trainer
        for r in self._diagnosed - trainer.diverged:
            if self.records[r].diagnostics.due(trainer.step):
                self.records[r].diagnose(trainer.step, trainer.annealed(r), trainer.own_batch(r, trainer.step + 1))

    def save(self) -> None:
        """Writes every replica's checkpoint, and the time; until all are there, the one before is the group's."""
        began = time.monotonic()
        self._save()
        together(Record.note_time, (self.records[r] for r in self.alive))
        self._saved_at = time.monotonic()
        self._pause = max(CHECKPOINT_SECONDS, (self._saved_at - began) / SHARE)

    def _save(self) -> None:
        together(lambda one: one[0].save(one[1]), ((self.records[r], self._state(r)) for r in self.alive))

    def _state(self, r: int) -> dict[str, Any]:
        """What the checkpoint of a run alone would hold."""
        return {
            "trainer": self.trainer.replica_state(r),
            "best": self.validate.best_state(r),
            "outputs": self.validate.replica_outputs(r),
        }

    def restore(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Goes on from the replicas' checkpoints, all of one step."""
        self.trainer.restore([state["trainer"] for state in states])
        self.validate.restore(states)

    def _finish(self) -> None:
        """Saves all models and writes the results."""
        if not self.alive:
            return
        best = self.validate.best_tested()
        self._save()

        def finish(r: int) -> dict[str, Any]:
            model = self.validate.best_state(r)["model"]
            return self.records[r].finish(best[r], model, "stacked", self.trainer.records[r], 0, self._facts)

        self.results = dict(zip(self.alive, together(finish, self.alive), strict=True))
