"""`manifest.json` in a sweep's root: every job that was ever planned there, and every stack with its members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock

from experiments.config.folder_names import override_key
from experiments.config.settings import CONDUCT
from experiments.sweep.plan import Job
from experiments.tracking.strict_json import DamagedFile, read_json, write_json

NAME = "manifest.json"


Stack = tuple[str, ...]  # runs that train as one model: their configurations' hashes, in the order of the replicas


def record(root: Path, jobs: Iterable[Job]) -> None:
    """Adds jobs to the manifest, or replaces their entries; sweeps may share a root."""
    entries = [entry(root, job) for job in jobs]
    with lock_root(root):
        known = {one["folder"]: one for one in read_manifest(root)}
        updated = known | {one["folder"]: one for one in entries}
        if updated != known:
            _write(root, list(updated.values()), read_stacks(root))


@contextmanager
def update_stacks(root: Path) -> Iterator[list[Stack]]:
    """Gives the stacks, oldest first, and writes those that the block adds; other commands wait meanwhile.

    A run belongs to the last stack that lists it; a stack without a run of its own is removed.
    """
    with lock_root(root):
        known = read_stacks(root)
        stacks = list(known)
        yield stacks
        owners = set({member: stack for stack in stacks for member in stack}.values())
        latest = dict.fromkeys(stack for stack in reversed(stacks) if stack in owners)
        current = list(reversed(latest))
        if current != known:
            _write(root, read_manifest(root), current)


def read_manifest(root: Path) -> list[Mapping[str, Any]]:
    """The entries, in the order in which they were first planned; none without a manifest.

    Raises DamagedFile for another file of that name.
    """
    return list(_content(root)["jobs"])


def read_stacks(root: Path) -> list[Stack]:
    """The stacks, oldest first; none without a manifest."""
    return [tuple(one["members"]) for one in _content(root)["stacks"]]


def entry(root: Path, job: Job) -> dict[str, Any]:
    """A job's entry; folders inside the root are relative to it."""
    return {
        "folder": _inside(root, job.folder),
        "overrides": [override for override in job.overrides if override_key(override) not in CONDUCT],
        "config_hash": job.config_hash,
        "group": job.group,
        "same_as": None if job.same_as is None else _inside(root, job.same_as),
        "error": job.reason or None if job.config_hash is None else None,
    }


@contextmanager
def lock_root(root: Path) -> Iterator[None]:
    """Keeps other commands from the root's own files while the block runs."""
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{NAME}.lock"):
        yield


def _content(root: Path) -> Mapping[str, Any]:
    file = root / NAME
    if not file.exists():
        return {"jobs": [], "stacks": []}
    content = read_json(file)
    if not isinstance(content, dict) or not isinstance(content.get("jobs"), list) or not _has_stacks(content):
        raise DamagedFile(file, "is not the manifest of a sweep; move it away, the runs beside it are kept")
    return {"stacks": [], **content}


def _has_stacks(content: Mapping[str, Any]) -> bool:
    stacks = content.get("stacks", [])  # earlier versions wrote none
    return isinstance(stacks, list) and all(
        isinstance(one, dict) and isinstance(one.get("members"), list) for one in stacks
    )


def _write(root: Path, jobs: list[Mapping[str, Any]], stacks: Iterable[Stack]) -> None:
    listed = [{"engine": "stacked", "members": list(stack)} for stack in stacks]
    write_json(root / NAME, {"jobs": jobs, "stacks": listed})


def _inside(root: Path, folder: Path) -> str:
    return str(folder.relative_to(root) if folder.is_relative_to(root) else folder)
