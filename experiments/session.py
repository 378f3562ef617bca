"""One process's work on a claimed run: trains, evaluates, logs, saves, and can be stopped at any step."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from experiments.console import Progress
from experiments.interruption import Interrupted, stop_signals
from experiments.nonfinite import Diverged
from experiments.tracking import checkpoint
from experiments.tracking.metrics import MetricsLog, last_values, read_metrics
from experiments.tracking.run_folder import RunFolder
from experiments.tracking.run_status import RUNNING
from experiments.tracking.strict_json import write_json
from experiments.tracking.tensorboard import CurveWriter
from experiments.trainer import Trainer
from experiments.validation import Validation

CHECKPOINT_SECONDS = 5.0  # evaluations write a checkpoint, but not more often than this


class Session:
    """Brings a run to its end; `train` returns the result."""

    def __init__(self, trainer: Trainer, folder: RunFolder, curves: CurveWriter, log: MetricsLog) -> None:
        self.trainer, self.folder, self.curves, self.log = trainer, folder, curves, log
        self.validate = Validation(trainer.model, trainer.data, trainer.settings.seed)
        self._saved_at = time.monotonic()
        self._logged_at = (time.monotonic(), trainer.step)

    def train(self, title: str) -> dict[str, Any]:
        """Goes on to the last step; raises Diverged or Interrupted."""
        trainer, last = self.trainer, self.trainer.settings.max_steps
        progress = Progress(title, last, trainer.step)
        try:
            with stop_signals() as stop:
                while trainer.step < last:
                    values = self._advance()
                    if values:
                        progress.update(trainer.step, values)
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
            self._log(diverged.values)  # the curve shows where it broke off
            raise
        last = trainer.step == settings.max_steps
        evaluates = last or trainer.step % settings.eval_every == 0
        if evaluates:
            values |= self.validate(trainer.step, last)
        if values:
            self._log(values)
        if evaluates and time.monotonic() - self._saved_at > CHECKPOINT_SECONDS:
            self.save()
        return values

    def _log(self, values: Mapping[str, float]) -> None:
        step = self.trainer.step
        self.log.write(step, values)
        (since, before), now = self._logged_at, time.monotonic()
        self._logged_at = (now, step)
        self.curves.scalars(step, {**values, "steps_per_second": (step - before) / max(now - since, 1e-9)})

    def save(self) -> None:
        """Puts the curves on the disk, then the checkpoint from which they go on."""
        self.log.sync()
        self.curves.flush()
        state = {
            "config_hash": self.folder.config_hash,
            "trainer": self.trainer.state(),
            "best": self.validate.best,
            "outputs": self.validate.outputs,
        }
        checkpoint.save(self.folder.last_checkpoint, state)
        self.folder.write_status(RUNNING)
        self._saved_at = time.monotonic()

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from a saved checkpoint."""
        self.trainer.restore(state["trainer"])
        self.validate.best, self.validate.outputs = state["best"], state["outputs"]
        self._logged_at = (time.monotonic(), self.trainer.step)

    def _finish(self) -> dict[str, Any]:
        """Saves both models and writes `result.json`."""
        best = self.validate.best_tested()
        self.save()
        checkpoint.save(self.folder.best_checkpoint, {"model": self.validate.best["model"], "step": best["step"]})
        record = self.trainer.record
        result = {
            "metrics": last_values(read_metrics(self.folder.metrics)),
            "best": best,
            "config_hash": self.folder.config_hash,
            "engine": "single",
            "never_trained": record.never_trained,
            "zero_gradient": record.only_zero,
            "skipped_steps": self.trainer.skipped,
        }
        write_json(self.folder.result, result)
        return result

    def close(self, success: bool | None) -> None:
        """Closes the logs; None for a run that is to be resumed."""
        self.curves.close(success)
        self.log.close()
