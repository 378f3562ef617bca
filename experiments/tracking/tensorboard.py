"""The curves for TensorBoard: one run folder is one TensorBoard run, whose event files lie in the folder itself."""

import math
import operator
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from experiments.tracking.curve_layout import layout_summary
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
        # Imported here, and tensorboard below: 70 ms that a run without curves need not pay.
        from torch.utils.tensorboard import SummaryWriter

        self.skipped: Counter[str] = Counter()
        self._known: set[str] = set()
        self._waiting: list[tuple[Any, int, float]] = []
        self._diverged = False
        values = hparam_values(hparams, columns)
        _await_new_name(folder)
        # TensorBoard purges at the second start that it meets, so a first session has to announce its own.
        self._writer = cast(Any, SummaryWriter(str(folder), purge_step=purge_step or 0))
        self._file = self._writer.file_writer
        for summary in (columns_summary(values, metrics), row_summary(values, group), layout_summary()):
            self._file.add_summary(summary)
        self.flush()

    def scalars(self, step: int, values: Mapping[str, Any]) -> None:
        """Add the values by tag at `step`, as one event: an eighth of the cost of one event a value.

        Raises ValueError for a tag that `tags.tag` could not have made, TypeError for a fractional step.
        """
        from tensorboard.compat.proto.summary_pb2 import Summary

        step = operator.index(step)
        event = Summary()
        for tag, value in values.items():
            converted = number(value)
            if converted is None:
                self.skipped[tag] += 1
                continue
            event.value.add(tag=tag, simple_value=converted, metadata=self._metadata(tag))
            if not math.isfinite(converted):
                self._mark_diverged(step, tag, converted)
        self._waiting.append((event, step, time.time()))
        if len(self._waiting) >= BATCH or time.time() - self._waiting[0][2] > LONGEST_WAIT:
            self._hand_over()

    def _hand_over(self) -> None:
        """Gives the writer's thread its work in one go: woken at every step, it would hold up the training."""
        for waiting in self._waiting:
            self._file.add_summary(*waiting)
        self._waiting.clear()

    def flush(self) -> None:
        """Put all events so far on the disk; call it before a checkpoint is published."""
        self._hand_over()
        self._writer.flush()

    def close(self, success: bool | None) -> None:
        """Say how the run ended, and close. None for a run that is to be resumed. More calls do nothing."""
        if self._writer.file_writer is None:
            return
        self._hand_over()
        if success is not None:
            self._file.add_summary(end_summary(success))
        self._writer.close()

    def _metadata(self, tag: str) -> Any:
        """What the first value of a tag says about all of them."""
        if tag in self._known:
            return None
        self._known.add(check_tag(tag))
        return scalar_metadata(tag)

    def _mark_diverged(self, step: int, tag: str, value: float) -> None:
        """A line in the text dashboard: a curve with a hole looks much like a healthy one."""
        if not self._diverged:
            self._writer.add_text("diverged", f"{tag} is {value} at step {step}", step)
        self._diverged = True


def scalar_metadata(tag: str) -> Any:
    """What the first value of a tag says about all of them."""
    from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_SCALAR
    from tensorboard.plugins.scalar.metadata import create_summary_metadata

    metadata = create_summary_metadata(display_name=tag, description=_NOTE)
    metadata.data_class = DATA_CLASS_SCALAR  # without it TensorBoard's fast loader ignores the rest
    return metadata


def _await_new_name(folder: Path) -> None:
    """Wait, under a second, until a new event file sorts after the ones there: TensorBoard reads them by name."""
    stamps = [file.name.split(".")[3] for file in folder.glob("events.out.tfevents.*")]
    while str(int(time.time())) in stamps:
        time.sleep(0.01)
