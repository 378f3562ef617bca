"""`manifest.json` in a sweep's root: every job that was ever planned there, every sweep with its runs, every stack.

`{"jobs": [...], "sweeps": [{"name", "overrides", "runs": [folder, ...]}, ...], "stacks": [...]}`
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock

from experiments.config.folder_names import override_key, sweep_name
from experiments.config.settings import CONDUCT
from experiments.config.values import ConfigError
from experiments.sweep.plan import Job
from experiments.terminal.console import short_path
from experiments.tracking.strict_json import DamagedFile, read_json, write_json

NAME = "manifest.json"
SHAPES: dict[str, dict[str, type]] = {  # what the entries of each part must have
    "jobs": {"folder": str},
    "sweeps": {"name": str, "overrides": list, "runs": list},
    "stacks": {"members": list},
}

Stack = tuple[str, ...]  # runs that train as one model: their configurations' hashes, in the order of the replicas


def record(root: Path, jobs: Sequence[Job], overrides: Sequence[str]) -> None:
    """Adds the jobs of the sweep with these overrides, or replaces their entries; sweeps may share a root.

    The overrides determine the sweep's name, so the same command updates the same sweep.
    """
    entries = [entry(root, job) for job in jobs]
    with lock_root(root):
        known = _content(root)
        listed = _by("folder", known["jobs"]) | _by("folder", entries)
        sweeps = _by("name", known["sweeps"])
        name = sweep_name(overrides)
        before = sweeps.get(name, {}).get("runs", [])
        runs = dict.fromkeys([*before, *(one["same_as"] or one["folder"] for one in entries)])
        sweeps[name] = {"name": name, "overrides": _numbers_only(overrides), "runs": list(runs)}
        updated = {**known, "jobs": list(listed.values()), "sweeps": list(sweeps.values())}
        if updated != known:
            _write(root, updated)


def _by(key: str, entries: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {one[key]: one for one in entries}


@contextmanager
def update_stacks(root: Path) -> Iterator[list[Stack]]:
    """Yields the stacks, oldest first, and writes those that the block adds. Other commands wait meanwhile.

    A run belongs to the last stack that lists it. A stack to which no run belongs is removed.
    """
    with lock_root(root):
        known = read_stacks(root)
        stacks = list(known)
        yield stacks
        owners = set({member: stack for stack in stacks for member in stack}.values())
        latest = dict.fromkeys(stack for stack in reversed(stacks) if stack in owners)
        current = list(reversed(latest))
        if current != known:
            stacks_now = [{"engine": "stacked", "members": list(stack)} for stack in current]
            _write(root, {**_content(root), "stacks": stacks_now})


def others_in(root: Path, jobs: Iterable[Job]) -> str:
    """A sentence about the root's runs that belong to none of these jobs; empty if there are no such runs."""
    own, known = {path_in(root, job.folder) for job in jobs}, _content(root)
    others = {one["folder"] for one in known["jobs"] if one["folder"] not in own and not one.get("same_as")}
    names = [one["name"] for one in known["sweeps"] if others.intersection(one["runs"])]
    if not others:
        return ""
    of = f"other sweeps ({', '.join(names)})" if names else "other sweeps"
    runs = "1 run" if len(others) == 1 else f"{len(others)} runs"
    return f"{short_path(root)} also holds {runs} of {of}; a comparison of the folder tells them apart (--sweep)"


def read_manifest(root: Path) -> list[Mapping[str, Any]]:
    """The entries of the jobs, in the order in which they were first planned; empty without a manifest.

    Raises DamagedFile if the file is not a manifest.
    """
    return list(_content(root)["jobs"])


def read_stacks(root: Path) -> list[Stack]:
    """The stacks, oldest first; empty without a manifest."""
    return [tuple(one["members"]) for one in _content(root)["stacks"]]


def entry(root: Path, job: Job) -> dict[str, Any]:
    """A job's entry; folders are relative to the root."""
    return {
        "folder": path_in(root, job.folder),
        "overrides": _numbers_only(job.overrides),
        "config_hash": job.config_hash,
        "group": job.group,
        "same_as": None if job.same_as is None else path_in(root, job.same_as),
        "error": job.reason or None if job.config_hash is None else None,
    }


@contextmanager
def lock_root(root: Path) -> Iterator[None]:
    """Keeps other commands away from the root's manifest and command folders while the block runs."""
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{NAME}.lock"):
        yield


def _content(root: Path) -> dict[str, Any]:
    file = root / NAME
    content = read_json(file) if file.exists() else {"jobs": []}
    if isinstance(content, dict):
        content = {"jobs": None, "sweeps": [], "stacks": [], **content}  # earlier versions wrote no sweeps, no stacks
    if not isinstance(content, dict) or not all(_has_shape(content[part], shape) for part, shape in SHAPES.items()):
        raise DamagedFile(file, "is not the manifest of a sweep; move it away; the runs stay intact")
    return content


def _has_shape(entries: Any, shape: Mapping[str, type]) -> bool:
    return isinstance(entries, list) and all(
        isinstance(one, dict) and all(isinstance(one.get(key), kind) for key, kind in shape.items()) for one in entries
    )


def _write(root: Path, content: Mapping[str, Any]) -> None:
    write_json(root / NAME, content)


def _numbers_only(overrides: Iterable[str]) -> list[str]:
    """The overrides that affect results."""
    return [override for override in overrides if override_key(override) not in CONDUCT]


def path_in(root: Path, folder: Path) -> str:
    """A job's folder relative to the sweep's root.

    Raises ConfigError if the folder is not below the root.
    """
    plain = Path(os.path.normpath(folder))
    if root == plain or not plain.is_relative_to(root):
        raise ConfigError(f"{plain} is not below the sweep's root {root}; hydra.sweep.subdir must stay inside")
    return str(plain.relative_to(root))
