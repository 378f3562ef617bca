"""The launcher `stacked`: jobs that differ only in numbers train as one model, all others one by one."""

# No `from __future__ import annotations`: dataclasses would look the annotations up in sys.modules, to which Hydra adds
# this module only after running it.
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class StackedLauncherConf:
    """No keys: `engine` and `workers` are settings of the runs."""

    _target_: str = "hydra_plugins.stacked_launcher.StackedLauncher"


ConfigStore.instance().store(group="hydra/launcher", name="stacked", node=StackedLauncherConf, provider="hardgrad")


class StackedLauncher(Launcher):
    """Passes the jobs to `experiments.sweep.launch`, imported only then because it imports torch.

    The sweeper `listed` sets `jobs`. With another sweeper they are composed from its overrides.
    """

    jobs: Sequence[Any] = ()

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Stores what the jobs need."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Runs the jobs; returns how each ended, in their order."""
        from experiments.sweep.launch import launch

        return launch(self, job_overrides, initial_job_idx)
