"""Makes the `Request` of a job from the configuration that Hydra composed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from experiments.config.settings import GROUPS
from experiments.sweep.compose import current
from experiments.sweep.plan import Job
from experiments.training.run import Request


def make_request(task: Any, config: DictConfig, quiet: bool) -> Request:
    """Makes a request. If `config` lacks Hydra's part, HydraConfig has it."""
    hydra_config: Any = HydraConfig.get()
    folder = Path(hydra_config.runtime.output_dir)
    chosen = any(override.startswith("hydra.run.dir=") for override in hydra_config.overrides.hydra)
    overrides: Any = OmegaConf.to_container(hydra_config.overrides.task, resolve=False)  # as they were typed
    own: Any = OmegaConf.to_container(config, resolve=False, enum_to_str=True)
    hydra_part = own.pop("hydra", None) or OmegaConf.to_container(hydra_config, resolve=False, enum_to_str=True)
    files = {"config.yaml": own, "hydra.yaml": {"hydra": hydra_part}, "overrides.yaml": overrides}
    search = None if quiet or chosen else folder.parent
    options = chosen_options(hydra_config)
    return Request(config, folder, search, overrides, task.typed, quiet, files, options=options)


def chosen_options(hydra_config: Any) -> dict[str, str]:
    """The chosen option of each group."""
    choices = hydra_config.runtime.choices
    return {group: str(choices[group]) for group in GROUPS if group in choices}


def request_of(task: Any, job: Job) -> Request:
    """Makes the request of a job of a stack."""
    with current(job.config):
        return make_request(task, job.config, quiet=True)
