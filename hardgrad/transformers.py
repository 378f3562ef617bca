"""`hardgrad.Monitor` as a callback of the Hugging Face Trainer; needs the extra `transformers`."""

from __future__ import annotations

from typing import Any

from experiments.monitoring.monitor import Monitor
from experiments.terminal.extras import needing

with needing("transformers"):
    from accelerate.utils import send_to_device
    from transformers import TrainerCallback


class MonitorCallback(TrainerCallback):  # type: ignore[misc]
    """Makes a `Monitor` of the model and calls its `step` before each optimizer step.

    `trainer.add_callback(MonitorCallback(trainer))` adds it. `steps` is the trainer's `max_steps`, `log_every` its
    `logging_steps`. The measurements go through `trainer.log`, so to `state.log_history` and all reports. The trainer
    clips before it calls the callback: `grad_norm/*` are norms after clipping, unless `max_grad_norm=0`. `seed`,
    `probe` and `steps_per_epoch` are those of `Monitor`; the probe batch is moved to the trainer's device.
    """

    def __init__(self, trainer: Any, *, seed: int = 0, probe: Any = None, steps_per_epoch: int | None = None) -> None:
        self.trainer, self.seed, self.probe, self.steps_per_epoch = trainer, seed, probe, steps_per_epoch
        self._unlogged: dict[str, float] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Makes the monitor, in a resumed training at the step reached."""
        self.monitor = Monitor(
            kwargs["model"],
            state.max_steps,
            seed=self.seed,
            log_every=state.logging_steps,
            probe=send_to_device(self.probe, args.device),
            steps_per_epoch=self.steps_per_epoch,
            start=state.global_step,
        )

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Measures the step; the trainer has unscaled and clipped the gradients."""
        self._unlogged = self.monitor.step(self.trainer.accelerator.scaler)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Logs the step before, which the trainer has counted by now."""
        self._log()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Logs the last step and removes the monitor's hooks."""
        self._log()
        self.monitor.close()

    def _log(self) -> None:
        if self._unlogged:
            self.trainer.log(self._unlogged)
        self._unlogged = {}
