"""The runs as pandas frames, for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.compare.reading.collecting import collect
from experiments.compare.reading.learning_curves import read_curves
from experiments.compare.reading.run_record import GROUPS, RunRecord
from experiments.compare.report import varied
from experiments.compare.statistics.scoring import Metric

if TYPE_CHECKING:
    import pandas as pd

GUESSED = ("accuracy/val", "accuracy/test")


def load(*runs: str | Path) -> pd.DataFrame:
    """One row a run and metric: where it ran, the options, the seed, every key that varies, `at`, `metric`, `value`.

    `at` is `best` (the checkpoint with the best validation accuracy) or `last`. A failed run has an accuracy like any
    other, that of a guess, and its `outcome` says so: none is dropped. Runs that are not over have one row without a
    metric. What was left out stands in `frame.attrs["notes"]`. Raises NoRuns where there is no run.
    """
    import pandas as pd

    found = collect(runs)
    columns = list(varied(found.runs))
    frame = pd.DataFrame([row for run in found.runs for row in _rows(run, columns)])
    frame.attrs["notes"] = found.notes
    return frame


def _rows(run: RunRecord, columns: list[str]) -> Iterator[dict[str, Any]]:
    known = {"run": str(run.path), **{group: run.options[group] for group in GROUPS}, "seed": run.seed}
    known |= {"outcome": run.outcome, "reason": run.reason, "seconds": run.seconds}
    known |= {key: run.config.get(key) for key in columns}
    values: list[tuple[str, str, float]]
    if run.failed:
        guesses = {tag: Metric(tag).guess(run) for tag in GUESSED}
        values = [(at, tag, guess) for at in ("best", "last") for tag, guess in guesses.items() if guess is not None]
    else:
        pairs = (("best", run.best), ("last", run.last))
        values = [(at, tag, value) for at, metrics in pairs for tag, value in metrics.items()]
    for at, tag, value in values or [("", "", math.nan)]:
        yield {**known, "at": at, "metric": tag, "value": value}


def curves(*runs: str | Path) -> pd.DataFrame:
    """One row a run, logged step and tag: `run`, `component`, `strategy`, `seed`, every key that varies, `step`, `tag`,
    `value`, float64 with NaN and infinities as they are. What was wrong with files stands in `frame.attrs["notes"]`.
    """
    import pandas as pd

    found = collect(runs)
    columns, notes, parts = list(varied(found.runs)), list(found.notes), []
    for run in found.runs:
        read = read_curves(run)
        notes += read.problems
        known: dict[str, Any] = {
            "run": str(run.path),
            "component": run.options["component"],
            "strategy": run.options["strategy"],
        }
        known |= {"seed": run.seed, **{key: run.config.get(key) for key in columns}}
        for tag, (steps, values) in read.curves.items():
            parts.append(pd.DataFrame({"step": steps, "tag": tag, "value": values}).assign(**known))
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["run", "step", "tag", "value"])
    frame.attrs["notes"] = notes
    return frame
