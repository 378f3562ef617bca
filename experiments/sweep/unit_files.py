"""Writes a stack into a file, for the process that trains it on any machine. The pickled task stays small."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from experiments.config.resolving import resolve
from experiments.tracking.atomic_file import replacing
from experiments.training.run import Request


def unit_file(units: Path, launched: str) -> Path:
    """The file of the unit whose launched job has the folder `launched`."""
    return units / f"{hashlib.sha256(launched.encode()).hexdigest()[:16]}.json"


def write_unit(file: Path, requests: Sequence[Request | None]) -> None:
    """Writes the requests of a stack, the argument of `run_group`."""
    content = {"requests": [None if one is None else _plain(one) for one in requests]}
    file.parent.mkdir(exist_ok=True)
    with replacing(file) as out:
        out.write(json.dumps(content).encode())


def read_unit(file: Path) -> list[Request | None] | None:
    """Reads the requests; None if there is no file, for a job that runs alone."""
    if not file.exists():
        return None
    return [None if one is None else _request(one) for one in json.loads(file.read_bytes())["requests"]]


def run_folders_of(units: Path) -> Iterator[Path]:
    """The folders of all runs in the unit files of the folder `units`."""
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
        "hydra_files": dict(request.hydra_files),
        "options": dict(request.options),
    }


def _request(plain: dict[str, Any]) -> Request:
    config = OmegaConf.create(plain["config"])
    if config.get("engine") == "compiled":  # of an earlier version, which had that engine
        config.engine = "stacked"
    plain.pop("columns", None)  # of an earlier version
    return Request(**{**plain, "config": config, "folder": Path(plain["folder"])})
