"""Experiments: data, models, the training loop, tracking and evaluation.

Users import these names from `hardgrad`. The function `hardgrad.sweep` is not among them: here `sweep` is a package.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import nn

    from experiments.command.in_python import options as options
    from experiments.command.in_python import train as train
    from experiments.command.run_results import Run as Run
    from experiments.command.run_results import RunFailed as RunFailed
    from experiments.command.run_results import SweepRuns as SweepRuns
    from experiments.config.values import ConfigError as ConfigError

else:
    _ON_DEMAND = {
        "ConfigError": "experiments.config.values",
        "Run": "experiments.command.run_results",
        "RunFailed": "experiments.command.run_results",
        "SweepRuns": "experiments.command.run_results",
        "options": "experiments.command.in_python",
        "train": "experiments.command.in_python",
    }

    def __getattr__(name):
        """Names that would import torch are imported when they are first asked for."""
        if name not in _ON_DEMAND:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_ON_DEMAND[name]), name)


def load(
    run: str | os.PathLike[str],
    which: Literal["best", "last"] = "best",
    device: str = "cpu",
    model: nn.Module | None = None,
) -> nn.Module:
    """The trained hard model of a run folder; see `experiments.training.loading.load`."""
    from experiments.training.loading import load

    return load(Path(run), which, device, model)
