"""The symptoms of a run, as numbers from its curves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments.compare.reading.learning_curves import RunCurves
from experiments.compare.reading.run_record import UNFINISHED, RunRecord
from experiments.compare.statistics.bands import gap_curve

LATE = 0.1  # share of the logged steps that count as the end


@dataclass
class Symptoms:
    """The symptoms of one run; layers by name.

    - `dead`: share of logged steps whose gradient is exactly 0 at the layer's input and not at its output
    - `zero`, `saturated`: mean share of inputs with gradient 0, or outside the op's range, at the end of the log
    - `flips`: share of hard outputs that changed between the last two evaluations
    - `peak`: largest gradient norm over the median one
    - `growth`: median gradient norm at the end over that at the start
    - `gap`: soft minus hard validation accuracy at the last evaluation
    - `unfinished`: whether the run is still in training, or was interrupted
    - `logged`: whether its log has any step
    """

    dead: dict[str, float] = field(default_factory=dict)
    zero: dict[str, float] = field(default_factory=dict)
    saturated: dict[str, float] = field(default_factory=dict)
    flips: dict[str, float] = field(default_factory=dict)
    peak: float | None = None
    growth: float | None = None
    gap: float | None = None
    non_finite: int = 0  # logged steps with a loss or gradient norm that is not finite
    skipped: int = 0  # optimizer steps left out
    never_trained: tuple[str, ...] = ()
    unfinished: bool = False
    logged: bool = True


def symptoms(run: RunRecord, curves: RunCurves) -> Symptoms:
    """Computes the symptoms of a run from its curves."""
    found = Symptoms(skipped=run.skipped_steps, never_trained=run.never_trained)
    found.unfinished, found.logged = run.outcome == UNFINISHED, bool(curves.curves)
    for tag in curves.curves:
        kind, _, rest = tag.partition("/")
        layer, _, what = rest.rpartition("/")
        values = curves.values(tag)
        if kind != "op" or not len(values):
            continue
        if what == "grad_in_norm":
            found.dead[layer] = _dead(values, curves.values(f"op/{layer}/grad_out_norm"))
        elif what == "zero_gradient_fraction":
            found.zero[layer] = _late_mean(values)
        elif what == "saturated_fraction":
            found.saturated[layer] = _late_mean(values)
        elif what == "flip_rate":
            found.flips[layer] = float(values[-1])
    norms = curves.values("grad_norm/total")
    found.non_finite = len(_bad_steps(curves))
    found.peak, found.growth = _norms(norms[np.isfinite(norms)])
    gaps = gap_curve(curves)[1]
    found.gap = float(gaps[-1]) if len(gaps) else None
    return found


def _dead(inner: Any, outer: Any) -> float:
    return float(np.mean((inner == 0) & (outer != 0))) if len(inner) == len(outer) else 0.0


def _late(values: Any) -> Any:
    return values[-max(1, round(LATE * len(values))) :]


def _late_mean(values: Any) -> float:
    return float(np.nanmean(_late(values))) if np.isfinite(_late(values)).any() else float("nan")


def _bad_steps(curves: RunCurves) -> set[int]:
    tags = [tag for tag in curves.curves if tag.startswith(("loss/", "grad_norm/"))]
    return {int(step) for tag in tags for step in curves.steps(tag)[~np.isfinite(curves.values(tag))]}


def _norms(norms: Any) -> tuple[float | None, float | None]:
    positive = norms[norms > 0]
    if len(positive) < 2:
        return None, None
    start = positive[: max(1, round(LATE * len(positive)))]
    return float(positive.max() / np.median(positive)), float(np.median(_late(positive)) / np.median(start))
