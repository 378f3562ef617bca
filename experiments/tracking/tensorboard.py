"""Writes the curves for TensorBoard: one run folder is one TensorBoard run, with its event files."""

import math
import operator
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.tracking.about import text_summary
from experiments.tracking.curve_layout import layout_summary
from experiments.tracking.event_file import EventFile
from experiments.tracking.hparams import end_summary, hparam_values, row_summary
from experiments.tracking.strict_json import number
from experiments.tracking.tags import check_tag


class CurveWriter:
    """Writes one event file into `folder`: the run's hyperparameters, the layout of the charts, then scalars.

    `hparams` is the (nested) configuration, which fills the run's row of the HParams dashboard.
    `purge_step` is the first step that a resumed run will log: TensorBoard drops what an earlier session logged there.
    A value that is not a single number does not stop the run: it is left out and counted in `skipped`.
    """

    def __init__(self, folder: Path, hparams: Mapping[str, object], purge_step: int | None = None) -> None:
        self.skipped: Counter[str] = Counter()
        self._checked: set[str] = set()
        self._diverged = self._closed = False
        # TensorBoard purges at the second start that it reads, so the first session must write a start too.
        self._file = EventFile(folder, purge_step or 0)
        self._file.add(row_summary(hparam_values(hparams)))
        self._file.add(layout_summary())

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
