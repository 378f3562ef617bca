"""`manifest.json` in a sweep's root: every job that was ever planned there, so that none can get lost.

And every stack: the runs that train as one model, in their order. One that was cut off goes on with the same members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from experiments.config.folder_names import override_key
from experiments.config.settings import CONDUCT
from experiments.sweep.plan import Job
from experiments.tracking.strict_json import DamagedFile, read_json, write_json

NAME = "manifest.json"


@dataclass(frozen=True)
class Stack:
    """Runs that train as one model: their configurations' hashes, in the order of the replicas, and the engine."""

    engine: str
    members: tuple[str, ...]


def known_beforehand(hydra: Any) -> bool:
    """Whether by Hydra's part of a configuration the sweeper records all jobs; those of any other do it themselves."""
    return bool(hydra.runtime.choices["hydra/sweeper"] == "listed")


def record(root: Path, jobs: Iterable[Job]) -> None:
    """Adds jobs to the manifest, or replaces what it says of them, whole or not at all; sweeps may share a root."""
    entries = [entry(root, job) for job in jobs]
    with locked(root):
        known = {one["folder"]: one for one in read_manifest(root)}
        updated = known | {one["folder"]: one for one in entries}
        if updated != known:
            _write(root, list(updated.values()), read_stacks(root))


@contextmanager
def noting_stacks(root: Path) -> Iterator[list[Stack]]:
    """The stacks, oldest first; what the block adds is written down, and no other command looks at them meanwhile.

    A run belongs to the last stack that names it; a stack to which none belongs any more is left out.
    """
    with locked(root):
        known = read_stacks(root)
        stacks = list(known)
        yield stacks
        owners = set({member: stack for stack in stacks for member in stack.members}.values())
        latest = dict.fromkeys(stack for stack in reversed(stacks) if stack in owners)
        current = list(reversed(latest))
        if current != known:
            _write(root, read_manifest(root), current)


def read_manifest(root: Path) -> list[Mapping[str, Any]]:
    """The entries, in the order in which they were first planned; none where there is no manifest.

    Raises DamagedFile where it is no manifest.
    """
    return list(_content(root)["jobs"])


def read_stacks(root: Path) -> list[Stack]:
    """The stacks, oldest first; none where there is no manifest, else as `read_manifest`."""
    return [Stack(str(one["engine"]), tuple(one["members"])) for one in _content(root)["stacks"]]


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


@contextmanager
def locked(root: Path) -> Iterator[None]:
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
    stacks = content.get("stacks", [])  # a manifest of an earlier version has none
    return isinstance(stacks, list) and all(
        isinstance(one, dict) and isinstance(one.get("engine"), str) and isinstance(one.get("members"), list)
        for one in stacks
    )


def _write(root: Path, jobs: list[Mapping[str, Any]], stacks: Iterable[Stack]) -> None:
    write_json(root / NAME, {"jobs": jobs, "stacks": [asdict(stack) for stack in stacks]})


def _inside(root: Path, folder: Path) -> str:
    return str(folder.relative_to(root) if folder.is_relative_to(root) else folder)
