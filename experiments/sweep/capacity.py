"""How many jobs run at a time, and how many of them share a process.

Without `workers` as many jobs run as the cores allow with their threads. A process opens no more files than its limit.
"""

from __future__ import annotations

import os
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

# Launchers whose processes stop with the command. A Slurm job does not depend on the command.
FOLLOWING = ("joblib", "submitit_local", "ray")
OF_OTHERS = (*FOLLOWING, "submitit_slurm")
FILES_OF_A_RUN = 3  # that stay open while it trains: lock, metrics, events
OTHER_FILES = 64  # of a process: libraries, checkpoints while they are written


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def open_runs(wanted: int) -> int:
    """How many runs one process can keep open, at most `wanted`.

    If the soft limit of open files is too low for `wanted` runs, increases it up to the hard limit and prints that.
    """
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    needed = wanted * FILES_OF_A_RUN + OTHER_FILES
    raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft < raised:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        print(f"raised the limit of open files from {soft} to {raised}, which {wanted} runs in one process need")
    return max(1, min(wanted, (max(soft, raised) - OTHER_FILES) // FILES_OF_A_RUN))


def launcher_name(config: DictConfig) -> str:
    """The chosen option of `hydra/launcher`."""
    return str(config.hydra.runtime.choices["hydra/launcher"])


def fit_workers(config: DictConfig, threads: int, workers: int | None) -> int:
    """Sets the launcher's processes and cores, unless the user has; returns how many jobs run at a time here."""
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
        ray.init.address = "local"  # else Ray looks for a cluster, and fails if that has ended
        ray.init.setdefault("num_cpus", threads * at_a_time)
        ray.init.setdefault("object_store_memory", 78643200)  # Ray's minimum; its default is a third of the memory
        ray.init.setdefault("logging_level", "warning")
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # Ray's default; Ray prints a line unless it is set


def start_helpers(config: DictConfig) -> None:
    """Starts what changes this process's signals when it starts: Ray itself, and joblib's tracker of semaphores."""
    name = launcher_name(config)
    if name == "ray":
        import ray

        options: Any = OmegaConf.to_container(config.hydra.launcher.ray.init, resolve=True)
        ray.init(**options)
    if name == "joblib":
        from joblib.externals.loky.backend.resource_tracker import ensure_running

        ensure_running()
