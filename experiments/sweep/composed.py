"""One job of a launcher: its configuration, and how it ended in Hydra's terms."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig

from experiments.sweep.compose import Composer
from experiments.tracking.run_status import FAILED, read_status


@dataclass
class Job:
    """A composed job; `config` includes Hydra's own part."""

    config: DictConfig
    overrides: list[str]

    @property
    def begins_anew(self) -> bool:
        """Whether a run that is in its folder makes room for it."""
        try:
            status = read_status(str(self.config.hydra.runtime.output_dir))
        except (OSError, ValueError):  # the run itself says what is wrong there
            status = None
        failed = status is not None and status["status"] == FAILED
        return bool(self.config.overwrite) or (failed and self.config.retry == "failed")

    def ended(self, result: Any, failed: bool) -> JobReturn:
        """What Hydra is told: the objective, or the error; the whole configuration stands for both of its parts."""
        status = JobStatus.FAILED if failed else JobStatus.COMPLETED
        done = JobReturn(self.overrides, self.config, self.config, os.getcwd(), self.config.hydra.job.name, status)
        done.return_value = result
        return done


def compose(composer: Composer, job_overrides: Sequence[Sequence[str]], first: int) -> list[Job]:
    """The jobs as Hydra's own launcher would compose them."""
    return [Job(composer.numbered(own, first + index), list(own)) for index, own in enumerate(job_overrides)]
