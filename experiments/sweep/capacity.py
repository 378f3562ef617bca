"""How many jobs run at a time, and with how many threads: never more threads than there are cores."""

from __future__ import annotations

import os
from typing import Any

from omegaconf import DictConfig, open_dict


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def launcher_name(config: DictConfig) -> str:
    """The option of `hydra/launcher`."""
    return str(config.hydra.runtime.choices["hydra/launcher"])


def fit_workers(config: DictConfig, threads: int, workers: int | None) -> int:
    """Sets what a job needs in the launcher's configuration, unless it is set; gives how many run at a time here."""
    name, launcher = launcher_name(config), config.hydra.launcher
    at_a_time = workers or max(1, cores() // threads)
    with open_dict(config.hydra):
        if name == "joblib":
            if workers or launcher.n_jobs == -1:
                launcher.n_jobs = at_a_time
            return int(launcher.n_jobs)
        if name.startswith("submitit"):
            launcher.cpus_per_task = launcher.cpus_per_task or threads
            if name == "submitit_slurm":
                launcher.array_parallelism = workers or launcher.array_parallelism
                return int(launcher.array_parallelism)
            return at_a_time
        if name == "ray":
            _fit_ray(launcher.ray, threads, at_a_time)
            return at_a_time
    return 1


def _fit_ray(ray: Any, threads: int, at_a_time: int) -> None:
    ray.remote.setdefault("num_cpus", threads)
    if (ray.init.get("address") or os.environ.get("RAY_ADDRESS", "local")) != "local":
        ray.init.setdefault("object_store_memory", None)  # a running cluster refuses the plugin's value
    else:
        ray.init.address = "local"  # else Ray would look for a cluster, and fail if one has ended
        ray.init.setdefault("num_cpus", threads * at_a_time)
