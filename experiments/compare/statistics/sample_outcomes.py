"""The outcomes of runs on the samples of their common test part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.compare.reading.run_record import RunRecord
from experiments.compare.statistics.metric import Metric
from experiments.tracking.strict_json import DamagedFile
from experiments.tracking.test_outcomes import read_test_outcomes

TAG = "accuracy/test"
_HASH = "data_hashes.test"


class SampleOutcomes:
    """Reads the outcomes of runs, each file once; `problems` lists files that cannot be used."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.problems: list[str] = []
        self._read: dict[Path, Any] = {}

    def outcomes(self, runs: Sequence[RunRecord]) -> Any:
        """Bool (n, N): which of N test samples each of n runs classified right.

        None if the metric is not test accuracy, a run lacks its outcomes, or the runs' test parts differ.
        """
        if self.metric.tag != TAG or not runs or len({run.conditions.get(_HASH) for run in runs}) > 1:
            return None
        found = [self._of(run) for run in runs]
        if any(one is None for one in found) or len({len(one) for one in found}) > 1:
            return None
        return np.stack(found)

    def _of(self, run: RunRecord) -> Any:
        if run.path not in self._read:
            self._read[run.path] = self._check(run)
        return self._read[run.path]

    def _check(self, run: RunRecord) -> Any:
        """A run's outcomes; None if it has none, or if they do not have its score as their mean."""
        if not run.has_folder:
            return None
        try:
            found = read_test_outcomes(run.path, self.metric.at)
        except DamagedFile as error:
            self.problems.append(f"{error.path} {error.fault}; it is left out of the intervals")
            return None
        if found is not None and not np.isclose(found.mean(), self.metric.of(run) or 0.0, rtol=0, atol=1e-6):
            self.problems.append(f"the outcomes of {run.path} do not have its score as their mean; they are left out")
            return None
        return found
