"""Trains claimed runs together in one process: evaluates, logs, saves, and stops at a signal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.measuring.alerts import Alerts
from experiments.measuring.facts import facts
from experiments.measuring.nonfinite import Diverged
from experiments.terminal.console import Progress
from experiments.training.denormals import denormals_as_zero
from experiments.training.interruption import Interrupted, stop_signals
from experiments.training.record import Record
from experiments.training.replicas import Replicas, Values
from experiments.training.together import together
from experiments.training.validation import Validation

CHECKPOINT_SECONDS = 5.0  # evaluations write a checkpoint, but not more often than this
SHARE = 0.03  # largest share of the time for checkpoints, which write a file for each replica


class Session:
    """Trains the replicas that have a record; a replica without a record only fills its slot in the stack.

    `fail(r, error)` is called for each replica that diverges. Its record is not written to afterwards.
    """

    def __init__(self, trainer: Replicas, records: Mapping[int, Record], fail: Callable[[int, Diverged], None]) -> None:
        self.trainer, self.records, self._fail = trainer, records, fail
        self.validate = Validation(trainer)
        self.alerts = [Alerts(trainer.template, trainer.settings.max_steps) for _ in range(trainer.replicas)]
        self._facts = facts(trainer.template, trainer.data)
        self._pause = CHECKPOINT_SECONDS
        self._saved_at = time.monotonic()

    def train(self) -> dict[int, dict[str, Any]]:
        """Trains to the last step, or until all replicas have diverged; returns each replica's result.

        Raises Interrupted at a signal, after the checkpoints are written.
        """
        trainer, last = self.trainer, self.trainer.settings.max_steps
        lines = {r: Progress(own.title, last, trainer.step, own.folder) for r, own in self.records.items()}
        try:
            with denormals_as_zero(), stop_signals() as stop:
                while trainer.step < last and self.alive:
                    self._show(lines, self._advance())
                    if stop.signum is not None:
                        self.save()
                        raise Interrupted(stop.signum)
        finally:
            for line in lines.values():
                line.close()
        return self._finish()

    @property
    def alive(self) -> list[int]:
        """The replicas with a record that have not diverged."""
        diverged = self.trainer.diverged
        return [r for r in self.records if r not in diverged]

    def _advance(self) -> list[Values]:
        """Makes one step; evaluates and saves if due. Returns logged values by replica, or an empty list."""
        trainer, settings = self.trainer, self.trainer.settings
        known = set(trainer.faults)
        values = trainer.advance()
        self._report_faults(trainer.faults.keys() - known, values)
        for r in self.alive if values else []:
            self.records[r].say_notes(self.alerts[r](trainer.step, values[r]))
        last = trainer.step == settings.max_steps
        evaluates = bool(self.alive) and (last or trainer.step % settings.eval_every == 0)
        if evaluates:
            scores = self.validate(trainer.step, last)
            values = [{**own, **scored} for own, scored in zip(values or [{}] * len(scores), scores, strict=True)]
        if values:
            for r in self.alive:
                self.records[r].write(trainer.step, values[r])
        self._diagnose()
        if evaluates and time.monotonic() - self._saved_at > self._pause:
            self.save()
        return values

    def _show(self, lines: Mapping[int, Progress], values: Sequence[Values]) -> None:
        for r in self.alive if values else []:
            lines[r].update(self.trainer.step, values[r])
            watch = self.records[r].watch
            if watch is not None:
                watch(self.trainer.step, values[r])

    def _report_faults(self, new: set[int], values: Sequence[Values]) -> None:
        trainer = self.trainer
        for r in sorted(new & self.records.keys()):
            if r in trainer.diverged:
                self.records[r].write(trainer.step, values[r])  # so that the curve shows the last step
                self._fail(r, Diverged(trainer.faults[r]))
            else:
                self.records[r].say_fault(trainer.faults[r], trainer.settings.on_nonfinite)

    def _diagnose(self) -> None:
        """Runs the diagnostics that are due: of each replica as an unstacked model, on the batch of the next step."""
        trainer = self.trainer
        for r in self.alive:
            if self.records[r].diagnostics.due(trainer.step):
                self.records[r].diagnose(trainer.step, trainer.single(r), trainer.batch(r, trainer.step + 1))

    def save(self) -> None:
        """Writes every replica's checkpoint, and its time so far."""
        began = time.monotonic()
        self._save()
        together(Record.note_time, (self.records[r] for r in self.alive))
        self._saved_at = time.monotonic()
        self._pause = max(CHECKPOINT_SECONDS, (self._saved_at - began) / SHARE)

    def _save(self) -> None:
        together(lambda pair: pair[0].save(pair[1]), ((self.records[r], self._state(r)) for r in self.alive))

    def _state(self, r: int) -> dict[str, Any]:
        return {"trainer": self.trainer.state(r), "alerts": self.alerts[r].state(), **self.validate.state(r)}

    def restore(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Loads the replicas' checkpoints, all of one step."""
        self.trainer.restore([state["trainer"] for state in states])
        self.validate.restore(states)
        for alerts, state in zip(self.alerts, states, strict=True):
            if "alerts" in state:  # not in checkpoints of earlier versions
                alerts.restore(state["alerts"])

    def _finish(self) -> dict[int, dict[str, Any]]:
        """Saves all models and writes the results."""
        if not self.alive:
            return {}
        best = self.validate.test_best()
        self._save()
        trainer = self.trainer

        def finish(r: int) -> dict[str, Any]:
            weights, own = self.validate.best[r]["model"], trainer.records[r]
            self.records[r].write_test_outcomes({which: right[r] for which, right in self.validate.right.items()})
            return self.records[r].finish(best[r], weights, trainer.engine, own, trainer.skipped, self._facts)

        return dict(zip(self.alive, together(finish, self.alive), strict=True))
