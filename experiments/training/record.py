"""Writes the files of one run while it trains: curves, log, checkpoints, and at the end the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from experiments.diagnostics.diagnostics import Diagnostics
from experiments.measuring.gradients import GradientRecord
from experiments.terminal.console import fold
from experiments.tracking import checkpoint
from experiments.tracking.loggers.logger import Logger
from experiments.tracking.metrics import MetricsLog, last_values, read_metrics
from experiments.tracking.run_folder import RunFolder
from experiments.tracking.run_status import RUNNING
from experiments.tracking.strict_json import write_json
from experiments.tracking.test_outcomes import Owner, Which, write_test_outcomes

Watch = Callable[[int, Mapping[str, float]], None]


class Record:
    """The files of a claimed run folder; `step` is the last logged step in them, None for a new run.

    `test_sha256` is the hash of the test part. `findings` is the log of the diagnostics; None without them. `title` is
    for the progress bar. `watch` receives each step's logged values, and may raise Pruned.
    """

    def __init__(
        self,
        folder: RunFolder,
        loggers: Sequence[Logger],
        log: MetricsLog,
        diagnostics: Diagnostics,
        step: int | None,
        test_sha256: str,
        findings: MetricsLog | None = None,
        title: str = "",
        watch: Watch | None = None,
    ) -> None:
        self.folder, self.loggers, self.log = folder, loggers, log
        self.diagnostics, self.findings = diagnostics, findings
        self._logged_at = (time.monotonic(), step or 0)
        self.title, self.watch = title, watch
        self._owner = Owner(folder.config_hash, test_sha256)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the logged values of a step."""
        self.log.write(step, values)
        (since, before), now = self._logged_at, time.monotonic()
        self._logged_at = (now, step)
        self._tell(step, {**values, "steps_per_second": (step - before) / max(now - since, 1e-9)})

    def say_notes(self, notes: Iterable[str]) -> None:
        """Prints what a user should know while the training continues."""
        for note in notes:
            self.folder.say(fold(f"note: {note}"))

    def say_fault(self, fault: str, policy: str) -> None:
        """Prints the first value that was not finite, under a policy that continues training."""
        self.say_notes([f"{fault}; on_nonfinite={policy} continues training"])

    def diagnose(self, step: int, model: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
        """Runs the diagnostics on a model after a step, with the batch of the next step."""
        assert self.findings is not None
        values = self.diagnostics.measure(model, batch, step)
        self.findings.write(step, values)
        self._tell(step, values)

    def save(self, state: Mapping[str, Any]) -> None:
        """Writes the logs to the disk, then the checkpoint that belongs to them."""
        for log in self._logs():
            log.sync()
        self.folder.refuse_if_moved()
        own = {"config_hash": self.folder.config_hash, "log": self.log.mark()}
        if self.findings is not None:
            own["findings"] = self.findings.mark()
        checkpoint.save(self.folder.last_checkpoint, {**own, **state})

    def note_time(self) -> None:
        """Records the run's seconds so far, so that a kill does not lose them."""
        self.folder.write_status(RUNNING)

    def write_test_outcomes(self, right: Mapping[Which, Tensor]) -> None:
        """Writes which test samples the last and the best model classified right, bool (N,) each."""
        self.folder.refuse_if_moved()
        write_test_outcomes(self.folder, self._owner, {which: bits.numpy() for which, bits in right.items()})

    def finish(
        self,
        best: Mapping[str, float],
        model: Mapping[str, Any],
        engine: str,
        seen: GradientRecord,
        skipped: int,
        facts: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Saves the best model and writes `result.json`; the `facts` of model and data are its last entries."""
        self.folder.refuse_if_moved()
        own = {"config_hash": self.folder.config_hash}
        checkpoint.save(self.folder.best_checkpoint, {**own, "model": dict(model), "step": best["step"]})
        result = {
            "metrics": last_values(read_metrics(self.folder.metrics)),
            "best": dict(best),
            "config_hash": self.folder.config_hash,
            "engine": engine,
            "never_trained": seen.never_trained,
            "zero_gradient": seen.only_zero,
            "skipped_steps": skipped,
            **facts,
        }
        write_json(self.folder.result, result)
        if self.findings is not None:
            self.folder.say(self.diagnostics.cost())
        return result

    def close(self, success: bool | None) -> None:
        """Closes the logs; `success` is None for a run that is to be resumed."""
        for logger in self.loggers:
            logger.close(success)
        for log in self._logs():
            log.close()
        self.folder.seal(files=True)

    def _tell(self, step: int, values: Mapping[str, float]) -> None:
        for logger in self.loggers:
            logger.scalars(step, values)

    def _logs(self) -> list[MetricsLog]:
        return [self.log] if self.findings is None else [self.log, self.findings]
