"""From the claimed folder to the result: trains, evaluates, logs, saves, and can be stopped at any step."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from experiments.console import Progress
from experiments.evaluation import has_batch_norm, recalibrated, score
from experiments.layer_probe import flip_rates, hard_outputs
from experiments.tracking import checkpoint
from experiments.tracking.metrics import MetricsLog, last_values, read_metrics
from experiments.tracking.run_folder import RunFolder
from experiments.tracking.run_status import RUNNING
from experiments.tracking.strict_json import write_json
from experiments.tracking.tensorboard import CurveWriter
from experiments.trainer import Trainer
from surrogates import hard_layers, key_noise

CHECKPOINT_SECONDS = 5.0  # evaluations write a checkpoint, but not more often than this
PROBE_SAMPLES = 256  # on which flipped decisions are counted


class Interrupted(KeyboardInterrupt):
    """Stopped by a signal, with a checkpoint written; `signum` says which."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


class Session:
    """One process's work on a run; `train` brings it to its end and returns the result."""

    def __init__(self, trainer: Trainer, folder: RunFolder, curves: CurveWriter, log: MetricsLog) -> None:
        self.trainer, self.folder, self.curves, self.log = trainer, folder, curves, log
        layers = hard_layers(trainer.model).values()
        self.soft = any(layer.strategy.soft_forward for layer in layers)
        self.best: dict[str, Any] = {}
        self.probe: dict[str, Tensor] = {}
        self._signal: int | None = None
        self._saved_at = time.monotonic()
        self._clock = (time.monotonic(), trainer.step)

    def train(self, title: str) -> dict[str, Any]:
        """Goes on to the last step; raises Diverged or Interrupted."""
        trainer, last = self.trainer, self.trainer.settings.max_steps
        progress = Progress(title, last, trainer.step)
        try:
            with self._signals():
                while trainer.step < last:
                    values = trainer.advance()
                    if self._evaluates():
                        values = {**(values or {}), **self.evaluate()}
                    if values is not None:
                        self._write(values)
                        progress.update(trainer.step, values)
                    if self._signal is not None:
                        self.save()
                        raise Interrupted(self._signal)
                    if self._evaluates() and time.monotonic() - self._saved_at > CHECKPOINT_SECONDS:
                        self.save()
        finally:
            progress.close()
        return self.finish()

    def _evaluates(self) -> bool:
        step, settings = self.trainer.step, self.trainer.settings
        return step % settings.eval_every == 0 or step == settings.max_steps

    def evaluate(self) -> dict[str, float]:
        """Validation scores with hard ops, with the strategy's own where they differ, and flipped decisions."""
        trainer, data = self.trainer, self.trainer.data
        hard = score(trainer.model, data.val)
        values = {"loss/val": hard.loss, "accuracy/val": hard.accuracy}
        if self.soft:
            key_noise(trainer.model, trainer.settings.seed, -trainer.step)
            soft = score(trainer.model, data.val, "strategy")
            values |= {"loss/val_soft": soft.loss, "accuracy/val_soft": soft.accuracy}
        outputs = hard_outputs(trainer.model, data.val.x[:PROBE_SAMPLES])
        values |= flip_rates(self.probe, outputs)
        self.probe = outputs
        if trainer.step == trainer.settings.max_steps:
            values |= self._final_scores()
        if hard.accuracy > self.best.get("accuracy/val", -1.0):
            self.best = {"step": trainer.step, **values, "model": _copied(trainer.model.state_dict())}
        return values

    def _final_scores(self) -> dict[str, float]:
        model, data = self.trainer.model, self.trainer.data
        values = {"accuracy/test": score(model, data.test).accuracy}
        if self.soft and has_batch_norm(model):
            hard = recalibrated(model, data.train.x)
            values["accuracy/val_recalibrated"] = score(hard, data.val).accuracy
            values["accuracy/test_recalibrated"] = score(hard, data.test).accuracy
        return values

    def _write(self, values: Mapping[str, float]) -> None:
        self.log.write(self.trainer.step, values)
        (since, at), now = self._clock, time.monotonic()
        self._clock = (now, self.trainer.step)
        speed = (self.trainer.step - at) / max(now - since, 1e-9)
        self.curves.scalars(self.trainer.step, {**values, "steps_per_second": speed})

    def save(self) -> None:
        """Puts the curves on the disk, then the checkpoint from which they go on."""
        self.log.sync()
        self.curves.flush()
        state = {"trainer": self.trainer.state(), "best": self.best, "probe": self.probe}
        checkpoint.save(self.folder.last_checkpoint, {**state, "config_hash": self.folder.config_hash})
        self.folder.write_status(RUNNING)
        self._saved_at = time.monotonic()

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from a saved checkpoint."""
        self.trainer.restore(state["trainer"])
        self.best, self.probe = state["best"], state["probe"]
        self._clock = (time.monotonic(), self.trainer.step)

    def finish(self) -> dict[str, Any]:
        """Scores the best model on the test part, saves both models and `result.json`."""
        best = {key: value for key, value in self.best.items() if key != "model"}
        last = self.trainer.model.state_dict()
        final = _copied(last)
        self.trainer.model.load_state_dict(self.best["model"])
        best["accuracy/test"] = score(self.trainer.model, self.trainer.data.test).accuracy
        self.trainer.model.load_state_dict(final)
        self.save()
        checkpoint.save(self.folder.best_checkpoint, {"model": self.best["model"], "step": best["step"]})
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

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Asks for a stop after the running step; a second Ctrl-C stops at once."""

        def stop(signum: int, _: Any) -> None:
            if self._signal is not None:
                raise Interrupted(signum)
            self._signal = signum

        try:
            before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not the main thread: nothing to catch
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def to_device(part: Any, device: str, dtype: torch.dtype) -> Any:
    """A data part on a device in a floating dtype."""
    return type(part)(part.x.to(device, dtype), part.y.to(device))
