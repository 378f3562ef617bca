"""Reads how true the gradients of a run were, and how well its training ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.compare.statistics.metric import Metric
from experiments.diagnostics.agreement import FEWEST
from experiments.study.stage import TrialRun
from experiments.tracking.metrics import read_metrics
from experiments.tracking.run_paths import RunPaths

COORDINATES, RANDOM = "truth/coordinate/30_flips/", "truth/random/300_flips/"
OUTCOMES = {"training loss": Metric("loss/train_end", "last"), "test accuracy": Metric("accuracy/test", "last")}
MEASURES = {
    "cosine, coordinates": "cosine with the differences along single parameters (30 flips)",
    "cosine, random": "cosine with the differences along random directions (300 flips)",
    "bias": "|g - f| / |f| over single parameters",
    "scale": "|ln s|, s the best factor for g along single parameters",
    "signal-to-noise": "norm of the mean gradient over its standard error, all parameters",
    "descent": "largest drop of the hard loss after one step along -g",
    "loss so far": "hard loss at that step, for comparison",
}
Values = Mapping[str, float]


@dataclass(frozen=True)
class MeasuredRun:
    """A run's measures by step, larger for a truer gradient, and its outcomes, larger for better training.

    A failed run has the outcome -inf.
    """

    component: str
    optimizer: str
    name: str
    seed: int
    measures: Mapping[int, Values]
    outcomes: Values

    @property
    def zero_gradient(self) -> bool:
        """Whether the gradient has no component along any direction that flips outputs, at the first step."""
        return self.measures[min(self.measures)]["bias"] == -1.0


def read_measured(one: TrialRun) -> MeasuredRun | None:
    """The measures and outcomes of a run; None for a run without diagnostics."""
    path = RunPaths(one.run.path).diagnostics
    if not path.exists():
        return None
    scores = {name: (metric, metric.of(one.run)) for name, metric in OUTCOMES.items()}
    outcomes = {name: -math.inf if score is None else metric.sign * score for name, (metric, score) in scores.items()}
    measures = {int(row["step"]): measure(row) for row in read_metrics(path)}
    options = one.run.options
    return MeasuredRun(options["component"], options["optimizer"], one.pair.name, one.run.seed, measures, outcomes)


def measure(row: Values) -> dict[str, float]:
    """The measures of one object of `diagnostics.jsonl`; NaN for one that was not measured.

    With predicted derivatives a and measured ones f over directions, c their cosine and s = <a, f> / <a, a>:
    bias = |a - f| / |f| = sqrt(1 - 2 c² / s + c² / s²). A gradient of 0 has c = 0, bias 1 and no scale.
    """
    c, s = _agreement(row, COORDINATES)
    bias = math.sqrt(max(0.0, 1 - 2 * c * c / s + c * c / (s * s))) if s else 1.0
    scale = abs(math.log(s)) if s > 0 else math.inf
    descents = [value for tag, value in row.items() if tag.startswith("truth/descent/")]
    known = not math.isnan(c)
    return {
        "cosine, coordinates": c,
        "cosine, random": _agreement(row, RANDOM)[0],
        "bias": -bias if known else math.nan,
        "scale": -scale if known else math.nan,
        "signal-to-noise": _signal_to_noise(row),
        "descent": -min(descents, default=0.0),
        "loss so far": -row["truth/hard_loss"],
    }


def _agreement(row: Values, prefix: str) -> tuple[float, float]:
    """Cosine and scale; NaN if too few directions counted, 0 if the gradient is 0 along all of them."""
    missing = math.nan if row[f"{prefix}directions"] < FEWEST else 0.0
    return row.get(f"{prefix}cosine", missing), row.get(f"{prefix}scale", missing)


def _signal_to_noise(row: Values) -> float:
    """|m| / sqrt(tr Cov / B) over all parameters, from those of each: m their mean gradient, B the batch."""
    prefix = "truth/sample_variance/"
    variances = {tag.removeprefix(prefix): value for tag, value in row.items() if tag.startswith(prefix)}
    total = sum(variances.values())
    signal = sum(variance * row.get(f"truth/snr/{name}", 0.0) ** 2 for name, variance in variances.items())
    return math.sqrt(signal / total) if total else 0.0
