"""Writes and reads `metrics.jsonl`: one strict JSON object a logged step, from which all curves and tables come."""

import hashlib
import json
import logging
import operator
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments.tracking.atomic_file import write_all
from experiments.tracking.regular_file import hash_start, read_lines, regular
from experiments.tracking.run_errors import LogChanged, reason
from experiments.tracking.strict_json import encode, number

_log = logging.getLogger(__name__)


class MetricsLog:
    """Appends to `path`; a written line survives the death of the process.

    `resume_at` is the step of the checkpoint that the run resumes from. Lines of later steps, which will be written
    again, and an incomplete last line are removed. None starts an empty file. `mark` is the value of `mark()` at that
    step. A value that is not a single number does not stop the run: it is left out and counted in `skipped`.
    Raises LogChanged if the lines up to that step are missing, damaged or different. Nothing is changed then.
    """

    def __init__(self, path: Path, resume_at: int | None = None, mark: Mapping[str, Any] | None = None) -> None:
        self.skipped: Counter[str] = Counter()
        self._last_step = -1 if resume_at is None else resume_at
        kept = (0, hashlib.sha256()) if resume_at is None else lines_to_keep(path, resume_at, mark)
        self._size: int = kept[0]
        self._digest: Any = kept[1]
        self._file = open(path, "ab", buffering=0, opener=regular)  # noqa: SIM115 (closed by `close`)
        self._file.truncate(self._size)

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Appends the values by tag, in the order given, as float64. One call takes all tags of a step.

        Raises ValueError if `step` is not after the last one.
        Raises TypeError if `step` is not a whole number.
        """
        step = operator.index(step)
        if step <= self._last_step:
            raise ValueError(
                f"{self._file.name}: step {step} comes after step {self._last_step}; log each step once, in order"
            )
        if "step" in values:
            raise ValueError(
                f"{self._file.name}: no tag may be named 'step', which is the key of the step; choose another name"
            )
        record: dict[str, float] = {"step": step}
        for tag, value in values.items():
            converted = number(value)
            if converted is None:
                self._skip(step, tag, value)
            else:
                record[tag] = converted
        line = f"{encode(record)}\n".encode()
        write_all(self._file, line)
        self._digest.update(line)
        self._size += len(line)
        self._last_step = step

    def mark(self) -> dict[str, Any]:
        """Returns the size and hash by which a checkpoint recognises the lines written so far."""
        return {"bytes": self._size, "sha256": self._digest.hexdigest()}

    def sync(self) -> None:
        """Flushes all lines to the disk; call it before a checkpoint is published."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file; more calls do nothing."""
        self._file.close()

    def _skip(self, step: int, tag: str, value: Any) -> None:
        if not self.skipped[tag]:
            _log.warning("%s at step %d is left out: %s is not a single number", tag, step, type(value).__name__)
        self.skipped[tag] += 1


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Yields the logged steps, with NaN and infinities as floats, without an incomplete last line.

    Raises ValueError, with the number of the line, if an earlier line is damaged.
    """
    return [record for record, _ in _records(path)]


def last_values(records: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns the last value by tag, the tags in the order of their first appearance."""
    last: dict[str, float] = {}
    for record in records:
        last.update(record)
    last.pop("step", None)
    return last


def _records(path: Path) -> Iterator[tuple[dict[str, float], int]]:
    """Yields each record with the size of the file up to its end, in bytes."""
    size = 0
    for index, line in enumerate(read_lines(path), start=1):
        if not line.endswith(b"\n"):  # the writer died inside this line
            return
        size += len(line)
        yield _record(line, f"{path}, line {index}"), size


def _record(line: bytes, where: str) -> dict[str, float]:
    try:
        parsed = json.loads(line)
        values = {tag: float(value) for tag, value in parsed.items() if tag != "step"}
        return {"step": int(parsed["step"]), **values}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{where} is damaged ({error!r}); a line must be an object with a step and numbers") from error


def lines_to_keep(path: Path, resume_at: int, mark: Mapping[str, Any] | None) -> tuple[int, Any]:
    """Returns size and hash of the lines up to a step; old checkpoints have no mark to compare them with.

    Raises LogChanged if the lines are missing, damaged or different.
    """
    try:
        size = _size_up_to(path, resume_at) if mark is None else mark["bytes"]
        kept, digest = hash_start(path, size)
    except OSError as error:
        raise LogChanged(path, f"cannot be read ({reason(error)})") from error
    except ValueError as error:
        raise LogChanged(path, str(error).removeprefix(str(path)).lstrip(", ")) from error
    if kept < size:
        raise LogChanged(path, f"ends before step {resume_at}, the step of the checkpoint")
    if mark is not None and digest.hexdigest() != mark["sha256"]:
        raise LogChanged(path, f"was changed or damaged since step {resume_at}, the step of the checkpoint")
    return kept, digest


def _size_up_to(path: Path, step: int) -> int:
    kept = 0
    for record, size in _records(path):
        if record["step"] > step:
            break
        kept = size
        if record["step"] == step:  # the rest is removed, damaged or not
            break
    return kept
