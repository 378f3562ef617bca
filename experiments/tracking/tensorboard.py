"""The curves for TensorBoard: one run folder is one TensorBoard run, whose event files lie in the folder itself."""

import math
import operator
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.tracking.curve_layout import layout_summary
from experiments.tracking.event_file import EventFile
from experiments.tracking.hparams import columns_summary, end_summary, hparam_values, row_summary
from experiments.tracking.strict_json import number
from experiments.tracking.tags import check_tag

BATCH, LONGEST_WAIT = 20, 2.0  # logged steps, or seconds, that are written together
_NOTE = "A float32 view; metrics.jsonl keeps every digit."


class CurveWriter:
    """Writes one event file into `folder`: the run's hyperparameters, the layout of the charts, then scalars.

    `hparams` is the (nested) configuration, `columns` the dotted keys that the configurations of all runs have
    together, `metrics` the tags whose last value the run's row shows, `group` what runs differing in their seed share.
    `purge_step` is the first step that a resumed run will log: TensorBoard drops what an earlier session logged there.
    A value that is not a single number is left out and counted in `skipped`: a curve never stops a training.
    A killed process loses at most the last few dozen logged steps since `flush`; metrics.jsonl loses none.
    """

    def __init__(
        self,
        folder: Path,
        hparams: Mapping[str, object],
        metrics: Sequence[str],
        group: str,
        purge_step: int | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        self.skipped: Counter[str] = Counter()
        self._known: set[str] = set()
        self._kept: dict[tuple[str, ...], Any] = {}
        self._waits, self._since = 0, 0.0
        self._diverged = self._closed = False
        values = hparam_values(hparams, columns)
        # TensorBoard purges at the second start that it meets, so a first session has to announce its own.
        self._file = EventFile(folder, purge_step or 0)
        for summary in (columns_summary(values, metrics), row_summary(values, group), layout_summary()):
            self._file.add(summary)
        self.flush()

    def scalars(self, step: int, values: Mapping[str, Any]) -> None:
        """Add the values by tag at `step`, as one event: an eighth of the cost of one event a value.

        Raises ValueError for a tag that `tags.tag` could not have made, TypeError for a fractional step.
        """
        step = operator.index(step)
        converted = {tag: number(value) for tag, value in values.items()}
        numbers = {tag: value for tag, value in converted.items() if value is not None}
        self.skipped.update(converted.keys() - numbers.keys())
        summary = self._summary(tuple(numbers))
        for entry, value in zip(summary.value, numbers.values(), strict=True):
            entry.simple_value = value
        self._file.add(summary, step)
        if not all(map(math.isfinite, numbers.values())):
            self._mark_diverged(step, numbers)
        self._since = self._since if self._waits else time.monotonic()
        self._waits += 1
        if self._waits >= BATCH or time.monotonic() - self._since > LONGEST_WAIT:
            self.flush()

    def _summary(self, tags: tuple[str, ...]) -> Any:
        """A summary with room for these values; kept where all tags are known, which is nearly always."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        if tags not in self._kept:
            new = [tag for tag in tags if tag not in self._known]
            summary = Summary(value=[Summary.Value(tag=tag, metadata=self._metadata(tag)) for tag in tags])
            if new:
                return summary
            self._kept[tags] = summary
        return self._kept[tags]

    def flush(self) -> None:
        """Put all events so far on the disk; call it before a checkpoint is published."""
        self._waits = 0
        self._file.flush()

    def close(self, success: bool | None) -> None:
        """Say how the run ended, and close. None for a run that is to be resumed. More calls do nothing."""
        if self._closed:
            return
        self._closed = True
        if success is not None:
            self._file.add(end_summary(success))
        self._file.close()

    def _metadata(self, tag: str) -> Any:
        """What the first value of a tag says about all of them."""
        if tag in self._known:
            return None
        self._known.add(check_tag(tag))
        return scalar_metadata(tag)

    def _mark_diverged(self, step: int, values: Mapping[str, float]) -> None:
        """A line in the text dashboard: a curve with a hole looks much like a healthy one."""
        if self._diverged:
            return
        self._diverged = True
        tag, value = next((tag, value) for tag, value in values.items() if not math.isfinite(value))
        self._file.add(text_summary("diverged", f"{tag} is {value} at step {step}"), step)


def text_summary(tag: str, words: str) -> Any:
    """Text of the text dashboard."""
    from torch.utils.tensorboard import summary

    untyped: Any = summary
    return untyped.text(tag, words)


def scalar_metadata(tag: str) -> Any:
    """What the first value of a tag says about all of them."""
    from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_SCALAR
    from tensorboard.plugins.scalar.metadata import create_summary_metadata

    metadata = create_summary_metadata(display_name=tag, description=_NOTE)
    metadata.data_class = DATA_CLASS_SCALAR  # without it TensorBoard's fast loader ignores the rest
    return metadata
