"""Records what a result depends on besides its configuration (`env.json`)."""

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

_PACKAGES = (
    "hardgrad",
    "torch",
    "torchvision",
    "numpy",
    "hydra-core",
    "omegaconf",
    "tensorboard",
    "scikit-learn",
    "mnist1d",
)
_GIT_TIMEOUT = 2.0  # seconds


def environment(
    argv: Sequence[str],
    threads: int,
    device: str,
    data_hashes: Mapping[str, str],
    engine: str = "single",
    source: Path | None = None,
) -> dict[str, Any]:
    """Returns the content of `env.json`; unknown values are None.

    `source` is the checkout whose commit is recorded; by default the checkout of this package.
    """
    return {
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": {"model": cpu_model(), "cores": _cores(), "instructions": torch.backends.cpu.get_cpu_capability()},
        "git": _git(source or Path(__file__).resolve().parents[2]),
        "argv": list(argv),
        "threads": threads,
        "device": device,
        "gpu": torch.cuda.get_device_name(device) if device.startswith("cuda") else None,
        "engine": engine,
        "data_hashes": dict(data_hashes),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cpu_model() -> str | None:
    """The processor's name; None if the system does not tell it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _cores() -> int | None:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _git(root: Path) -> dict[str, Any]:
    """Returns the commit, and whether a file differs from it or is new; both None outside a checkout or without git."""
    unknown = {"commit": None, "dirty": None}
    if not (root / ".git").exists():  # an installed copy must not report a repository that happens to contain it
        return unknown
    # No optional locks, so that reading does not block a commit in progress.
    command = ["git", "--no-optional-locks", "status", "--porcelain=v2", "--branch"]
    try:
        answer = subprocess.run(command, cwd=root, capture_output=True, check=True, timeout=_GIT_TIMEOUT)
    except (OSError, subprocess.SubprocessError):
        return unknown
    lines = answer.stdout.decode(errors="replace").splitlines()
    commits = [line.split()[-1] for line in lines if line.startswith("# branch.oid")]
    dirty = any(not line.startswith("#") for line in lines)
    return {"commit": commits[0] if commits and commits[0] != "(initial)" else None, "dirty": dirty}
