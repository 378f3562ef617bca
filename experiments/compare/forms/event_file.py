"""One event file, one run of TensorBoard: summaries, scalars, pictures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments.tracking.event_file import EventFile as SummaryFile
from experiments.tracking.tensorboard import scalar_metadata


class EventFile(SummaryFile):
    """Writes into a folder of its own; closed at the end of a `with` block."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._known: set[str] = set()

    def __enter__(self) -> EventFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """The values by tag at a step."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary()
        for tag, value in values.items():
            metadata = None if tag in self._known else scalar_metadata(tag)
            self._known.add(tag)
            summary.value.add(tag=tag, simple_value=value, metadata=metadata)
        self.add(summary, step)

    def picture(self, tag: str, png: bytes, step: int) -> None:
        """A PNG picture."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        image = Summary.Image(encoded_image_string=png)
        self.add(Summary(value=[Summary.Value(tag=tag, image=image)]), step)
