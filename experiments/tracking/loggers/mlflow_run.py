"""Writes a run into MLflow: a local database, or the server that MLFLOW_TRACKING_URI names."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from experiments.tracking.loggers.logger import LoggedRun

EXPERIMENT = "hardgrad"  # unless MLFLOW_EXPERIMENT_NAME is set
_STATUS = {True: "FINISHED", False: "FAILED", None: "KILLED"}


class MlflowRun:
    """A run of MLflow: the configuration as its parameters, the values as its metrics."""

    def __init__(self, run: LoggedRun) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # else importing MLflow reports to its makers
        import mlflow

        self._client = mlflow.MlflowClient()
        if run.id is None:
            experiment = mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT))
            tags = {"hardgrad.folder": str(run.folder)}
            made = self._client.create_run(experiment.experiment_id, run_name=run.folder.name, tags=tags)
            self.id = str(made.info.run_id)
            parameters = [mlflow.entities.Param(key, str(value)) for key, value in run.config.items()]
            self._client.log_batch(self.id, params=parameters)
        else:
            self.id = run.id
            self._client.update_run(self.id, status="RUNNING")

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Logs values by tag at a step."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        self._client.log_batch(self.id, [Metric(tag, value, now, step) for tag, value in values.items()])

    def close(self, success: bool | None) -> None:
        """Sets the status: FINISHED, FAILED, or KILLED for a run that was interrupted."""
        self._client.set_terminated(self.id, _STATUS[success])
