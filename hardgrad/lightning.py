"""`hardgrad.Monitor` as a callback of Lightning's Trainer; needs the extra `lightning`."""

from __future__ import annotations

from typing import Any

from experiments.monitoring.monitor import Monitor
from experiments.terminal.extras import needing

with needing("lightning"):
    from lightning.pytorch import Callback


class MonitorCallback(Callback):  # type: ignore[misc]
    """Makes a `Monitor` of the LightningModule and calls its `step` before each optimizer step.

    `steps` is the Trainer's number of optimizer steps, `log_every` its `log_every_n_steps`. The measurements go to all
    loggers of the Trainer, at Lightning's own step, which counts from 0; `values` holds the last ones. `seed`, `probe`
    and `steps_per_epoch` are those of `Monitor`; the probe batch is moved to the model's device.
    Raises ValueError when training starts if the number of steps is unknown, or there are several optimizers.
    """

    def __init__(self, *, seed: int = 0, probe: Any = None, steps_per_epoch: int | None = None) -> None:
        self.seed, self.probe, self.steps_per_epoch = seed, probe, steps_per_epoch
        self.values: dict[str, float] = {}

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Makes the monitor, in a resumed training at the step reached."""
        if len(trainer.optimizers) != 1:
            raise ValueError(f"MonitorCallback needs a model with one optimizer, got {len(trainer.optimizers)}")
        steps = trainer.estimated_stepping_batches
        if not 1 <= steps < float("inf"):
            raise ValueError("MonitorCallback needs the number of optimizer steps: give Trainer max_steps")
        self.monitor = Monitor(
            pl_module,
            steps,
            seed=self.seed,
            log_every=trainer.log_every_n_steps or steps,
            probe=trainer.strategy.batch_to_device(self.probe),
            steps_per_epoch=self.steps_per_epoch,
            start=trainer.global_step,
        )

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Measures the step and logs what it measured; Lightning has unscaled the gradients and not clipped them."""
        values = self.monitor.step(getattr(trainer.precision_plugin, "scaler", None))
        if values:
            self.values = values
            for logger in trainer.loggers:
                logger.log_metrics(values, step=trainer.global_step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Removes the monitor's hooks."""
        self.monitor.close()
