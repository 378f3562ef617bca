"""Writes a run for Weights & Biases: into files of the run folder, or to the server if WANDB_MODE=online."""

from __future__ import annotations

import os
from collections.abc import Mapping

from experiments.tracking.loggers.logger import LoggedRun

PROJECT = "hardgrad"  # unless WANDB_PROJECT is set


class WandbRun:
    """A run of Weights & Biases, in the folder `wandb` of the run folder."""

    def __init__(self, run: LoggedRun) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # else errors are reported to its makers
        import wandb

        self._run = wandb.init(
            project=None if "WANDB_PROJECT" in os.environ else PROJECT,
            mode=None if "WANDB_MODE" in os.environ else "offline",
            dir=run.folder,
            id=run.id,
            resume="allow" if run.id else None,
            name=run.folder.name,
            config=dict(run.config),
            reinit="create_new",  # a stack has many runs at once
            settings=wandb.Settings(silent=True, console="off"),
        )
        self.id = str(self._run.id)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Logs values by tag at a step."""
        self._run.log(dict(values), step=step)

    def close(self, success: bool | None) -> None:
        """Ends the run; its exit code is 0 if it succeeded, else 1."""
        self._run.finish(exit_code=0 if success else 1)
