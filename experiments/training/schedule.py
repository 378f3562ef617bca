"""The batches of all training steps, and the share of training done before each step."""

from __future__ import annotations

from experiments.config.choices import ConfigError
from experiments.config.settings import Settings
from experiments.data.batches import Batches
from experiments.data.dataset import Dataset
from surrogates import schedules


def training_batches(settings: Settings, data: Dataset) -> Batches:
    """The batches of a run.

    Raises ConfigError if a batch is larger than the training part.
    Raises ConfigError for `overfit_batches` if training samples are never repeated.
    """
    size = len(data.train)
    if settings.overfit_batches is not None:
        if data.epoch is not None:
            raise ConfigError(
                f"overfit_batches={settings.overfit_batches} repeats training samples, data.fresh=true never does; "
                "set one of them only"
            )
        size = min(size, settings.overfit_batches * settings.batch_size)
    try:
        return Batches(size, settings.batch_size, settings.seed, settings.device)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def shares_done(step: int, settings: Settings, batches: Batches) -> tuple[float, float]:
    """The shares of training done before optimizer step `step`, counted from 1, and before its epoch."""
    return schedules.shares_done(step, settings.max_steps, batches.per_epoch)
