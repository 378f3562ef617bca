"""The sweeper `listed`: Hydra's `basic` with points, and with a list of all jobs before the first one runs."""

# No `from __future__ import annotations`: dataclasses would look the annotations up in sys.modules, to which Hydra adds
# this module only after running it.
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class ListedSweeperConf:
    """`params`: keys swept as a product; `points`: keys set together; `leave_out`: combinations to skip."""

    _target_: str = "hydra_plugins.listed_sweeper.ListedSweeper"
    params: dict[str, Any] | None = None
    points: Any = field(default_factory=list)
    leave_out: Any = field(default_factory=list)


ConfigStore.instance().store(group="hydra/sweeper", name="listed", node=ListedSweeperConf, provider="hardgrad")


class ListedSweeper(Sweeper):
    """Passes the sweep to `experiments.sweep`, imported only then because it imports torch."""

    def __init__(
        self,
        params: Mapping[str, Any] | None = None,
        points: Sequence[Mapping[str, Any]] = (),
        leave_out: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.params, self.points, self.leave_out = params or {}, points, leave_out

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Stores what the jobs need."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def sweep(self, arguments: list[str]) -> Any:
        """Runs the sweep."""
        from experiments.sweep.conduct import conduct

        return conduct(self, arguments)

    def new_launcher(self, jobs: Sequence[Any]) -> Any:
        """Makes the configured launcher. The launcher `stacked` also gets the composed jobs."""
        assert self.hydra_context is not None
        assert self.config is not None
        launcher: Any = Plugins.instance().instantiate_launcher(
            hydra_context=self.hydra_context, task_function=self.task_function, config=self.config
        )
        if hasattr(launcher, "jobs"):
            launcher.jobs = jobs
        return launcher
