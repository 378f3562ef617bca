"""The names of the loggers, and the classes behind them."""

from importlib import import_module
from typing import Any

TENSORBOARD = "tensorboard"
ADAPTERS = {
    "mlflow": "experiments.tracking.loggers.mlflow_run.MlflowRun",
    "wandb": "experiments.tracking.loggers.wandb_run.WandbRun",
}


def logger_class(name: str) -> Any:
    """Returns the class of a logger: of an adapter by its name, of another by MODULE.CLASS.

    Raises ImportError or AttributeError if there is none.
    """
    module, _, kind = ADAPTERS.get(name, name).rpartition(".")
    return getattr(import_module(module), kind)
