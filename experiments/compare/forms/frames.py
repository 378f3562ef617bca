"""The runs as pandas frames, for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.compare.reading.collection import collect
from experiments.compare.reading.learning_curves import read_curves
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.report import row, varied_keys
from experiments.terminal.extras import needing

if TYPE_CHECKING:
    import pandas as pd


def load(*runs: str | Path) -> pd.DataFrame:
    """Returns one row a run and metric: folder, options, seed, every key that varies, `at`, `metric`, `value`.

    `at` is `best` (the checkpoint with the best validation accuracy) or `last`. No run is dropped: a failed or
    unfinished run, as `outcome` says, has one row without a metric.
    `frame.attrs["notes"]` lists what was left out.
    Raises NoRuns if there is no run.
    """
    with needing("compare"):
        import pandas as pd

    found = collect(runs)
    columns = list(varied_keys(found.runs))
    frame = pd.DataFrame([row for run in found.runs for row in _rows(run, columns)])
    frame.attrs["notes"] = found.notes
    return frame


def _rows(run: RunRecord, columns: list[str]) -> Iterator[dict[str, Any]]:
    pairs = () if run.failed else (("best", run.best), ("last", run.last))
    values = [(at, tag, value) for at, metrics in pairs for tag, value in metrics.items()]
    for at, tag, value in values or [("", "", math.nan)]:
        yield {**row(run, columns), "at": at, "metric": tag, "value": value}


def curves(*runs: str | Path) -> pd.DataFrame:
    """Returns one row a run, logged step and tag.

    Columns: `run`, `component`, `strategy`, `seed`, every key that varies, `step`, `tag`, `value` (float64, NaN and
    infinities included). `frame.attrs["notes"]` lists faults of files.
    Raises NoRuns if there is no run.
    """
    with needing("compare"):
        import pandas as pd

    found = collect(runs)
    columns, notes, parts = list(varied_keys(found.runs)), list(found.notes), []
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
