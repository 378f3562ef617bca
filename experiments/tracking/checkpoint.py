"""Writes and reads checkpoints: whole files with a checksum, which `torch.load(path, weights_only=True)` reads.

A file has the bytes of `torch.save`, then one line with the format and a SHA-256.
"""

import hashlib
import io
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import torch

from experiments.tracking.atomic_file import replacing
from experiments.tracking.plain_state import check_plain
from experiments.tracking.regular_file import hash_rest, refuse_too_large, regular
from experiments.tracking.run_paths import BEST, LAST, PREVIOUS

FORMAT = 1

_log = logging.getLogger(__name__)
_TRAILER = re.compile(rb"\nhardgrad checkpoint format=(\d+) sha256=([0-9a-f]{64})\n\Z")
_TRAILER_SIZE = 200  # bytes; no trailer is longer


class CheckpointError(Exception):
    """Raised if a file is not a whole checkpoint of this program; the message names the file and its fault."""


class ForeignCheckpoint(CheckpointError):
    """Raised if a checkpoint belongs to another run, or is of another kind than its name says."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Writes `state` to `path`, whole or not at all; an earlier `last.pt` is kept as `previous.pt`.

    Raises TypeError, with the key, if `state` holds more than plain containers, numbers, text and tensors. Nothing is
    written then.
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
    """Loads the saved state, with its tensors on `map_location`.

    Raises CheckpointError if the file is missing, empty, incomplete, changed, foreign, of a later version, or holds
    objects that only code could make.
    """
    with _open_verified(path) as file:
        try:
            state = torch.load(file, map_location=map_location, weights_only=True)
        except Exception as error:  # a malicious file may cause any error
            fault = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise CheckpointError(f"{path} is not loaded, because it holds more than plain data: {fault}") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} holds a {type(state).__name__}; a run saves a dict")
    return state


def load_own(path: Path, config_hash: str, map_location: str | torch.device = "cpu") -> dict[str, Any]:
    """Loads the saved state of the run with this hash.

    Raises ForeignCheckpoint if another run wrote it, or if it is of another kind than the file's name says.
    Raises CheckpointError as `load` does.
    """
    state = load(path, map_location)
    part = "model" if path.name == BEST else "trainer"
    if not isinstance(state.get(part), dict):
        raise ForeignCheckpoint(f"{path} lacks the part '{part}', so it is not the {path.name} of a run")
    written_by = state.get("config_hash", config_hash)  # earlier versions wrote no hash into best.pt
    if written_by != config_hash:
        raise ForeignCheckpoint(f"{path} belongs to another run: its hash is {written_by}, this run's is {config_hash}")
    return state


def load_whole(folder: Path, config_hash: str, map_location: str | torch.device = "cpu") -> list[dict[str, Any]]:
    """Loads the usable states of a run in `last.pt` and `previous.pt`, the newest first; none if there are no files.

    Warns if `last.pt` is damaged and `previous.pt` is usable.
    Raises CheckpointError, with the fault of each file, if no file is usable.
    Raises ForeignCheckpoint if a file belongs to another run.
    """
    states, failures = [], []
    for path in (folder / LAST, folder / PREVIOUS):
        if not os.path.lexists(path):
            continue
        try:
            states.append(load_own(path, config_hash, map_location))
        except ForeignCheckpoint:
            raise
        except CheckpointError as error:
            failures.append((path, str(error)))
    if failures and not states:
        raise CheckpointError("; ".join(fault for _, fault in failures))
    for path, fault in failures:
        if path.name == LAST:
            _log.warning("%s; the run resumes from %s", fault, folder / PREVIOUS)
    return states


def go_back(folder: Path, to_start: bool) -> None:
    """Makes `previous.pt` the last checkpoint, or with `to_start` removes both, so that a group resumes at one step."""
    if to_start:
        for name in (LAST, PREVIOUS):
            (folder / name).unlink(missing_ok=True)
    else:
        os.replace(folder / PREVIOUS, folder / LAST)


def _trailer(version: int, digest: str) -> bytes:
    return f"\nhardgrad checkpoint format={version} sha256={digest}\n".encode()


@contextmanager
def _open_verified(path: Path) -> Iterator[BinaryIO]:
    """Opens the file and verifies it by its last line, which `torch.load` ignores."""
    try:
        file = open(path, "rb", opener=regular)  # noqa: SIM115 (closed by the block below)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    with file:
        try:
            _verify(path, file)
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
        file.seek(0)
        yield file


def _verify(path: Path, file: BinaryIO) -> None:
    size = file.seek(0, os.SEEK_END)
    if not size:
        raise CheckpointError(f"{path} is empty")
    file.seek(max(0, size - _TRAILER_SIZE))
    found = _TRAILER.search(file.read())
    if found is None:
        raise CheckpointError(f"{path} is incomplete, or hardgrad did not write it: its last line is missing")
    version, digest = int(found[1]), found[2].decode()
    if version > FORMAT:
        raise CheckpointError(f"{path} has format {version}, this hardgrad reads up to {FORMAT}; install a newer one")
    refuse_too_large(file, path)
    file.seek(0)
    if hash_rest(file, size - len(found[0]))[1].hexdigest() != digest:
        raise CheckpointError(f"{path} is damaged: its content does not match its checksum")


def _is_whole(path: Path) -> bool:
    try:
        with _open_verified(path):
            return True
    except CheckpointError:
        return False
