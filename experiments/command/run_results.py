"""Runs as Python objects, read from their folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from experiments.compare.reading.learning_curves import read_curves
from experiments.compare.reading.run_record import read_run
from experiments.sweep.outcomes import JobReport
from experiments.sweep.plan import status_now
from experiments.terminal.extras import needing
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import DONE, last_line, read_status
from experiments.tracking.strict_json import read_json
from experiments.training.loading import load

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn


class RunFailed(RuntimeError):
    """A run began and has no result; the message says why, and `run` has its folder."""

    def __init__(self, run: Run) -> None:
        super().__init__(f"{run.folder}: {run.status}, {run.reason or 'no reason given'}")
        self.run = run


class Run:
    """A run folder: its result, curves and trained model. `os.fspath(run)` is the folder.

    `model` is the object that was trained, for a run whose model was given as an object.
    Raises FileNotFoundError for a folder without a run.
    """

    def __init__(self, folder: str | os.PathLike[str], model: nn.Module | None = None) -> None:
        self.folder, self._given = Path(folder).absolute(), model
        if read_status(self.folder) is None:
            raise FileNotFoundError(f"{self.folder} holds no run: there is no {RunPaths(self.folder).status.name}")

    def __fspath__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        shown = f", accuracy {self.accuracy:.4f}" if self.status == DONE else ""
        return f"Run({str(self.folder)!r}, {self.status}{shown})"

    @property
    def status(self) -> str:
        """DONE, FAILED, INTERRUPTED, NOT_APPLICABLE or RUNNING."""
        return status_now(self.folder, self._status)

    @property
    def reason(self) -> str:
        """Why the run is not done; empty for a run that is."""
        return last_line(self._status)

    @property
    def _status(self) -> dict[str, Any]:
        return read_status(self.folder) or {}

    @cached_property
    def result(self) -> dict[str, Any]:
        """The content of `result.json`; raises RunFailed for a run without a result."""
        if self.status != DONE:
            raise RunFailed(self)
        content: dict[str, Any] = read_json(RunPaths(self.folder).result)
        return content

    @property
    def accuracy(self) -> float:
        """The hard test accuracy, between 0 and 1, of the weights that were best on validation data."""
        return float(self.result["best"]["accuracy/test"])

    def curves(self) -> pd.DataFrame:
        """A row a logged step, a column a tag; NaN at steps at which a tag was not logged. Needs pandas.

        `attrs["notes"]` lists what is wrong with the file.
        """
        with needing("compare"):
            import pandas as pd
        read = read_curves(read_run(self.folder))
        columns = {tag: pd.Series(values, index=steps) for tag, (steps, values) in read.curves.items()}
        frame = pd.DataFrame(columns).rename_axis("step")
        frame.attrs["notes"] = read.problems
        return frame

    @cached_property
    def model(self) -> nn.Module:
        """The trained model with its best weights, in evaluation mode: its hard layers are hard."""
        return load(self.folder, model=self._given)


@dataclass(frozen=True)
class JobWithoutResult:
    """A job of a sweep that is not done: what it sets, its folder, its status, and the reason."""

    overrides: Sequence[str]
    folder: Path
    status: str
    reason: str


class SweepRuns(Sequence[Run]):
    """The finished runs of a sweep, in the order of its jobs; `failed` are its other jobs.

    `folders` are the run folders of all jobs: a comparison also counts the runs that failed.
    """

    def __init__(self, folder: Path, reports: Sequence[JobReport], model: nn.Module | None = None) -> None:
        self.folder = folder
        places = {report.job.same_as or report.job.folder: report for report in reports}
        self.folders = [place for place in places if RunPaths(place).status.exists()]
        self._runs = [Run(place, model) for place, report in places.items() if report.status == DONE]
        self.failed = [
            JobWithoutResult(tuple(report.job.overrides), place, report.status, report.reason)
            for place, report in places.items()
            if report.status != DONE
        ]

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> list[Run]: ...

    def __getitem__(self, index: int | slice) -> Run | list[Run]:
        return self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __repr__(self) -> str:
        return f"SweepRuns({str(self.folder)!r}, {len(self)} done, {len(self.failed)} without a result)"
