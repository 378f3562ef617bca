"""Writes the curves for TensorBoard: one run folder is one TensorBoard run, with its event files."""

import math
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.tracking.curve_layout import layout_summary
from experiments.tracking.event_file import EventFile
from experiments.tracking.hparams import columns_summary, end_summary, hparam_values, row_summary
from experiments.tracking.strict_json import number
from experiments.tracking.tags import check_tag


class CurveWriter:
    """Writes one event file into `folder`: the run's hyperparameters, the layout of the charts, then scalars.

    `hparams` is the (nested) configuration, `columns` the dotted keys of the configurations of all runs together,
    `metrics` the tags whose last value the run's row shows, `group` the name that runs of different seeds share.
    `purge_step` is the first step that a resumed run will log: TensorBoard drops what an earlier session logged there.
    A value that is not a single number does not stop the run: it is left out and counted in `skipped`.
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
        self._checked: set[str] = set()
        self._diverged = self._closed = False
        values = hparam_values(hparams, columns)
        # TensorBoard purges at the second start that it reads, so the first session must write a start too.
        self._file = EventFile(folder, purge_step or 0)
        for summary in (columns_summary(values, metrics), row_summary(values, group), layout_summary()):
            self._file.add(summary)

    def scalars(self, step: int, values: Mapping[str, Any]) -> None:
        """Adds the values by tag at `step`.

        Raises ValueError if `tags.tag` could not have made a tag.
        Raises TypeError if the step is not a whole number.
        """
        step = operator.index(step)
        for tag in values.keys() - self._checked:
            self._checked.add(check_tag(tag))
        converted = {tag: number(value) for tag, value in values.items()}
        numbers = {tag: value for tag, value in converted.items() if value is not None}
        self.skipped.update(converted.keys() - numbers.keys())
        self._file.scalars(step, numbers)
        if not all(map(math.isfinite, numbers.values())):
            self._mark_diverged(step, numbers)

    def close(self, success: bool | None) -> None:
        """Writes how the run ended (None: it is interrupted) and closes the file; more calls do nothing."""
        if self._closed:
            return
        self._closed = True
        if success is not None:
            self._file.add(end_summary(success))
        self._file.close()

    def _mark_diverged(self, step: int, values: Mapping[str, float]) -> None:
        """Writes a line into the text dashboard, because a gap in a curve is easy to miss."""
        if self._diverged:
            return
        self._diverged = True
        tag, value = next((tag, value) for tag, value in values.items() if not math.isfinite(value))
        self._file.add(text_summary("diverged", f"{tag} is {value} at step {step}"), step)


def text_summary(tag: str, words: str) -> Any:
    """Returns a text for the text dashboard."""
    from torch.utils.tensorboard import summary

    untyped: Any = summary
    return untyped.text(tag, words)
