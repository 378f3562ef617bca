"""A unit of jobs as a file, for the process on whatever machine that trains it: what is sent there stays small."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from experiments.config.choices import resolve
from experiments.tracking.atomic_file import replacing
from experiments.training.run import Request


def unit_file(units: Path, launched: str) -> Path:
    """That of the unit for which the job in the folder `launched` is launched."""
    return units / f"{hashlib.sha256(launched.encode()).hexdigest()[:16]}.json"


def write_unit(file: Path, requests: Sequence[Request | None], compiled: bool) -> None:
    """Writes what `run_group` is to be called with."""
    content = {"compiled": compiled, "requests": [None if one is None else _plain(one) for one in requests]}
    file.parent.mkdir(exist_ok=True)
    with replacing(file) as out:
        out.write(json.dumps(content).encode())


def read_unit(file: Path) -> tuple[list[Request | None], bool] | None:
    """What was written; None for a job that has no file, and so runs alone."""
    if not file.exists():
        return None
    content = json.loads(file.read_bytes())
    return [None if one is None else _request(one) for one in content["requests"]], bool(content["compiled"])


def run_folders_of(units: Path) -> Iterator[Path]:
    """Those of all runs whose units have files in the folder `units`."""
    for file in units.glob("*.json"):
        requests = json.loads(file.read_bytes())["requests"]
        yield from (Path(one["folder"]) for one in requests if one is not None)


def _plain(request: Request) -> dict[str, Any]:
    return {
        "config": resolve(request.config),
        "folder": str(request.folder),
        "overrides": list(request.overrides),
        "argv": list(request.argv),
        "quiet": request.quiet,
        "columns": list(request.columns),
        "hydra_files": dict(request.hydra_files),
    }


def _request(plain: dict[str, Any]) -> Request:
    config = OmegaConf.create(plain["config"])
    return Request(**{**plain, "config": config, "folder": Path(plain["folder"])})
