"""Writes one event file, which TensorBoard reads as one run: summaries, scalars and pictures.

`SummaryWriter` starts a thread for each run, which slows down training, most in a stack of many runs.
"""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

EVENT_FILES = "events.out.tfevents.*"
_NOTE = "A float32 view; metrics.jsonl keeps every digit."
_numbers = itertools.count()


class EventFile:
    """A new event file in `folder`, which is made. Written events survive the death of this process.

    `purge_step`: TensorBoard drops the events of earlier files in the folder from that step on.
    """

    def __init__(self, folder: Path, purge_step: int | None = None) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{_stamp(folder):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self._records: Any = RecordWriter(open(folder / name, "xb"))  # noqa: SIM115 (closed by `close`)
        self._known: set[str] = set()
        self._write(file_version="brain.Event:2")
        if purge_step is not None:
            self._write(step=purge_step, session_log=SessionLog(status=SessionLog.START))

    def add(self, summary: Any, step: int = 0) -> None:
        """Writes a summary at a step, as one event."""
        self._write(step=step, summary=summary)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the values by tag at a step, as one event, which costs an eighth of one event a value."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary()
        for tag, value in values.items():
            metadata = None if tag in self._known else _scalar_metadata(tag)
            self._known.add(tag)
            summary.value.add(tag=tag, simple_value=value, metadata=metadata)
        self.add(summary, step)

    def picture(self, tag: str, png: bytes, step: int) -> None:
        """Writes a PNG picture."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        self.add(Summary(value=[Summary.Value(tag=tag, image=Summary.Image(encoded_image_string=png))]), step)

    def close(self) -> None:
        """Closes the file; more calls do nothing."""
        if not self._records.closed:
            self._records.close()

    def __enter__(self) -> EventFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _write(self, **content: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._records.write(Event(wall_time=time.time(), **content).SerializeToString())
        self._records.flush()


def _stamp(folder: Path) -> int:
    """Returns the time in seconds, later than every file there: TensorBoard reads files by name, clocks can go back."""
    stamps = [file.name.split(".")[3] for file in folder.glob(EVENT_FILES)]
    return max([int(time.time()), *(int(stamp) + 1 for stamp in stamps if stamp.isdecimal())])


def _scalar_metadata(tag: str) -> Any:
    """Returns the metadata that the first value of a tag carries for all its values."""
    from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_SCALAR
    from tensorboard.plugins.scalar.metadata import create_summary_metadata

    metadata = create_summary_metadata(display_name=tag, description=_NOTE)
    metadata.data_class = DATA_CLASS_SCALAR  # without it TensorBoard's fast loader ignores the rest
    return metadata
