"""An event file of TensorBoard's (records in TFRecord framing), written from this thread and in few pieces.

`SummaryWriter` starts a thread a run, which holds up the training and costs most where a stack has many runs.
"""

from __future__ import annotations

import functools
import itertools
import os
import socket
import struct
import time
from pathlib import Path
from typing import Any

import google_crc32c

from experiments.tracking.atomic_file import write_all

_numbers = itertools.count()


class EventFile:
    """A new event file in `folder`, which is made; what is added is on its way to the disk after `flush`.

    `purge_step`: TensorBoard drops what earlier files of the folder hold from that step on.
    """

    def __init__(self, folder: Path, purge_step: int | None = None) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{_stamp(folder):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self._file = open(folder / name, "xb", buffering=0)  # noqa: SIM115 (closed by `close`)
        self._waiting: list[bytes] = []
        self._event: Any = Event(wall_time=time.time(), file_version="brain.Event:2")
        self._add()
        if purge_step is not None:
            start = SessionLog(status=SessionLog.START)
            self._event = Event(wall_time=time.time(), step=purge_step, session_log=start)
            self._add()
        self._event = Event()

    def add(self, summary: Any, step: int = 0) -> None:
        """A summary at a step, as one event."""
        self._event.summary.CopyFrom(summary)
        self._event.step, self._event.wall_time = step, time.time()
        self._add()

    def _add(self) -> None:
        content = self._event.SerializeToString()
        self._waiting += _header(len(content)), content, _checksum(content)

    def flush(self) -> None:
        """Hands all that was added to the operating system, where it survives the death of this process."""
        write_all(self._file, b"".join(self._waiting))
        self._waiting.clear()

    def close(self) -> None:
        """Flushes and closes; more calls do nothing."""
        if not self._file.closed:
            self.flush()
            self._file.close()


def _stamp(folder: Path) -> int:
    """Now, in seconds, but after the files that are there: TensorBoard reads them by name, and clocks are set back."""
    stamps = [file.name.split(".")[3] for file in folder.glob("events.out.tfevents.*")]
    return max([int(time.time()), *(int(stamp) + 1 for stamp in stamps if stamp.isdecimal())])


@functools.lru_cache(maxsize=4096)
def _header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + _checksum(packed)


def _checksum(message: bytes) -> bytes:
    """CRC-32C, rotated right by 15 bits plus 0xA282EAD8, as the TFRecord format has it."""
    crc: int = google_crc32c.value(message)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
