"""Checkpoints that `torch.load(path, weights_only=True)` reads, written whole, with a checksum.

A file is what `torch.save` writes and one line with the format and a SHA-256.
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
_TRAILER_SIZE = 200  # bytes; more than any trailer has


class CheckpointError(Exception):
    """A file that is not a whole checkpoint of this program; the message names the file and its fault."""


class ForeignCheckpoint(CheckpointError):
    """A whole checkpoint that belongs to another run, or into another file; the message names it and both hashes."""


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
    with _open_verified(path) as file:
        try:
            state = torch.load(file, map_location=map_location, weights_only=True)
        except Exception as error:  # whatever a file made to harm leads to
            fault = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise CheckpointError(f"{path} does not hold plain data alone and is not loaded: {fault}") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} holds a {type(state).__name__}, not the dict that a run saves")
    return state


def load_own(path: Path, config_hash: str, map_location: str | torch.device = "cpu") -> dict[str, Any]:
    """The saved state of a run with this hash.

    Raises ForeignCheckpoint if another run wrote it, or if it is none of the kind that the file's name says, and
    CheckpointError as `load` does.
    """
    state = load(path, map_location)
    part = "model" if path.name == BEST else "trainer"
    if not isinstance(state.get(part), dict):
        raise ForeignCheckpoint(f"{path} lacks the part '{part}': it is another file than a run's {path.name}")
    written_by = state.get("config_hash", config_hash)  # earlier versions put none into best.pt
    if written_by != config_hash:
        raise ForeignCheckpoint(f"{path} belongs to another run: its hash is {written_by}, this run's is {config_hash}")
    return state


def load_whole(folder: Path, config_hash: str, map_location: str | torch.device = "cpu") -> list[dict[str, Any]]:
    """The usable states of a run in `last.pt` and `previous.pt`, the newest first; none if there are no files.

    A damaged `last.pt` is named in a warning. Raises CheckpointError, naming each file, if none can be used, and
    ForeignCheckpoint if one belongs to another run.
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
            _log.warning("%s; going on from %s", fault, folder / PREVIOUS)
    return states


def go_back(folder: Path, to_start: bool) -> None:
    """Makes `previous.pt` the last one, or with `to_start` removes both, so that a group resumes at one step."""
    if to_start:
        for name in (LAST, PREVIOUS):
            (folder / name).unlink(missing_ok=True)
    else:
        os.replace(folder / PREVIOUS, folder / LAST)


def _trailer(version: int, digest: str) -> bytes:
    return f"\nhardgrad checkpoint format={version} sha256={digest}\n".encode()


@contextmanager
def _open_verified(path: Path) -> Iterator[BinaryIO]:
    """The open file, verified by its last line, which `torch.load` ignores; that line is looked at first."""
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
        raise CheckpointError(f"{path} is cut short, or was not written by hardgrad: its last line is missing")
    version, digest = int(found[1]), found[2].decode()
    if version > FORMAT:
        raise CheckpointError(f"{path} has format {version}, this hardgrad reads up to {FORMAT}; use a newer one")
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
