"""Checkpoints that `torch.load(path, weights_only=True)` reads, written whole, with a checksum.

A file is what `torch.save` writes and one line with the format and a SHA-256.
"""

import hashlib
import io
import logging
import os
import pickle
import re
from pathlib import Path
from typing import Any

import torch

from experiments.tracking.atomic_file import replacing
from experiments.tracking.plain_state import check_plain
from experiments.tracking.run_paths import LAST, PREVIOUS

FORMAT = 1

_log = logging.getLogger(__name__)
_TRAILER = re.compile(rb"\nhardgrad checkpoint format=(\d+) sha256=([0-9a-f]{64})\n\Z")
_TRAILER_SIZE = 200  # bytes; more than any trailer has


class CheckpointError(Exception):
    """A file that is not a whole checkpoint of this program; the message names the file and its fault."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Write `state` to `path`, whole or not at all; for `last.pt` the one before stays as `previous.pt`.

    Raises TypeError, naming the key, before anything is written, if `state` holds more than plain containers,
    numbers, text and tensors.
    """
    check_plain(state)
    path.parent.mkdir(exist_ok=True)  # not its parents: a removed run folder must not reappear in part
    # A damaged last.pt must not push out the good previous one.
    keep_as = path.with_name(PREVIOUS) if path.name == LAST and _is_whole(path) else None
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getbuffer()
    with replacing(path, keep_as) as file:
        file.write(content)
        file.write(_trailer(FORMAT, hashlib.sha256(content).hexdigest()))


def load(path: Path, map_location: str | torch.device = "cpu") -> dict[str, Any]:
    """The saved state, its tensors on `map_location`.

    Raises CheckpointError if the file is missing, empty, cut short, changed, foreign, of a later version, or holds
    objects that only code could make.
    """
    content = _verify(path)
    try:
        state = torch.load(io.BytesIO(content), map_location=map_location, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError) as error:
        fault = str(error).strip().splitlines()[0]
        raise CheckpointError(f"{path} does not hold plain data alone and is not loaded: {fault}") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} holds a {type(state).__name__}, not the dict that a run saves")
    return state


def load_latest(folder: Path, map_location: str | torch.device = "cpu") -> dict[str, Any] | None:
    """The state in `last.pt`, or with a warning that in `previous.pt`; None if there is neither.

    Raises CheckpointError, naming each file, if there are files and none can be used.
    """
    failures = []
    for path in (folder / LAST, folder / PREVIOUS):
        if not path.exists():
            continue
        try:
            state = load(path, map_location)
        except CheckpointError as error:
            failures.append(str(error))
            continue
        if failures:
            _log.warning("%s; going on from %s", failures[0], path)
        return state
    if failures:
        raise CheckpointError("; ".join(failures))
    return None


def load_whole(folder: Path, map_location: str | torch.device = "cpu") -> list[dict[str, Any]]:
    """The usable states in `last.pt` and `previous.pt`, the newest first; raises as `load_latest` does."""
    if load_latest(folder, map_location) is None:
        return []
    return [load(path, map_location) for path in (folder / LAST, folder / PREVIOUS) if _is_whole(path)]


def go_back(folder: Path, to_start: bool) -> None:
    """Makes `previous.pt` the last one, or with `to_start` removes both, so that a group resumes at one step."""
    if to_start:
        for name in (LAST, PREVIOUS):
            (folder / name).unlink(missing_ok=True)
    else:
        os.replace(folder / PREVIOUS, folder / LAST)


def _trailer(version: int, digest: str) -> bytes:
    return f"\nhardgrad checkpoint format={version} sha256={digest}\n".encode()


def _verify(path: Path) -> bytes:
    """The file's bytes, verified by the last line, which `torch.load` ignores."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    if not content:
        raise CheckpointError(f"{path} is empty")
    found = _TRAILER.search(content, max(0, len(content) - _TRAILER_SIZE))
    if found is None:
        raise CheckpointError(f"{path} is cut short, or was not written by hardgrad: its last line is missing")
    version, digest = int(found[1]), found[2].decode()
    if version > FORMAT:
        raise CheckpointError(f"{path} has format {version}, this hardgrad reads up to {FORMAT}; use a newer one")
    if hashlib.sha256(memoryview(content)[: found.start()]).hexdigest() != digest:
        raise CheckpointError(f"{path} is damaged: its content does not match its checksum")
    return content


def _is_whole(path: Path) -> bool:
    try:
        _verify(path)
    except CheckpointError:
        return False
    return True
