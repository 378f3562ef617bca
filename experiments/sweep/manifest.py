"""`manifest.json` in a sweep's root: every job that was ever planned there, so that none can get lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from experiments.naming import override_key
from experiments.settings import CONDUCT
from experiments.sweep.plan import Job
from experiments.tracking.strict_json import read_json, write_json

NAME = "manifest.json"


def record(root: Path, jobs: Iterable[Job]) -> None:
    """Adds jobs to the manifest, or replaces what it says of them, whole or not at all; sweeps may share a root."""
    entries = [entry(root, job) for job in jobs]
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{NAME}.lock"):
        known = {one["folder"]: one for one in read_manifest(root)}
        updated = known | {one["folder"]: one for one in entries}
        if updated != known:
            write_json(root / NAME, {"jobs": list(updated.values())})


def read_manifest(root: Path) -> list[Mapping[str, Any]]:
    """The entries, in the order in which they were first planned; none where there is no manifest.

    Raises ValueError, naming the file, where it is no manifest.
    """
    file = root / NAME
    if not file.exists():
        return []
    content = read_json(file)
    if not isinstance(content, dict) or not isinstance(content.get("jobs"), list):
        raise ValueError(f"{file} is not the manifest of a sweep; move it away, the runs beside it are kept")
    return list(content["jobs"])


def entry(root: Path, job: Job) -> dict[str, Any]:
    """One job as the manifest has it; folders are relative to the root where they are inside."""
    return {
        "folder": _inside(root, job.folder),
        "overrides": [override for override in job.overrides if override_key(override) not in CONDUCT],
        "config_hash": job.config_hash,
        "group": job.group,
        "same_as": None if job.same_as is None else _inside(root, job.same_as),
        "error": job.reason or None if job.config_hash is None else None,
    }


def _inside(root: Path, folder: Path) -> str:
    return str(folder.relative_to(root) if folder.is_relative_to(root) else folder)
