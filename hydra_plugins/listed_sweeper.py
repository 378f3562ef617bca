"""Hydra's sweeper here: the same as its basic one, with listed points, and all jobs known before the first one runs."""

# No `from __future__ import annotations`: Hydra runs this before it is in sys.modules, where dataclasses would look.
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
    """`params`: values to multiply; `points`: keys set together; `leave_out`: combinations that are no jobs."""

    _target_: str = "hydra_plugins.listed_sweeper.ListedSweeper"
    params: dict[str, Any] | None = None
    points: Any = field(default_factory=list)
    leave_out: Any = field(default_factory=list)


ConfigStore.instance().store(group="hydra/sweeper", name="listed", node=ListedSweeperConf, provider="hardgrad")


class ListedSweeper(Sweeper):
    """Hands what the command line asks for to `experiments.sweep`; imports no torch before.

    `composer` composes the jobs.
    """

    def __init__(
        self,
        params: Mapping[str, Any] | None = None,
        points: Sequence[Mapping[str, Any]] = (),
        leave_out: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.params, self.points, self.leave_out = params or {}, points, leave_out

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keeps what the jobs need."""
        from experiments.sweep.compose import Composer

        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config
        self.composer: Any = Composer(hydra_context.config_loader, config)

    def listed(self, arguments: Sequence[str]) -> list[list[str]]:
        """The overrides of every job that the command line asks for."""
        from experiments.sweep.listing import job_overrides, plain_list

        return job_overrides(arguments, self.params, plain_list(self.points, "points"))

    def sweep(self, arguments: list[str]) -> Any:
        """Runs the sweep."""
        from experiments.sweep.conduct import conduct

        return conduct(self, arguments)

    def new_launcher(self) -> Any:
        """The configured launcher, as the configuration now has it."""
        assert self.hydra_context is not None
        assert self.config is not None
        launcher: Any = Plugins.instance().instantiate_launcher(
            hydra_context=self.hydra_context, task_function=self.task_function, config=self.config
        )
        if hasattr(launcher, "composer"):
            launcher.composer = self.composer
        return launcher
