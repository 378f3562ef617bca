"""Makes the panels of a block: learning curves with bands, and validation accuracy by tuned value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.compare.forms.tables import short
from experiments.compare.report import Section
from experiments.compare.statistics.bands import GAP, Band
from experiments.compare.statistics.tuning import TrialChoice

MOST_LAYERS = 12  # panels of one kind; curves.csv has all layers
MOST_BANDS = 8  # variants; more bands would hide the lines
MOST_POINTS = 300  # of a curve
STEP, LOSS, ACCURACY, NORM = "optimizer step", "loss, nats", "accuracy, %", "gradient norm"
_CURVES = (
    ("loss/train", "training loss", LOSS),
    ("loss/val", "validation loss, hard", LOSS),
    ("accuracy/val", "validation accuracy, hard, %", ACCURACY),
    ("accuracy/val_soft", "validation accuracy, soft, %", ACCURACY),
    (GAP, "gap: soft - hard accuracy, points", "points"),
    ("grad_norm/total", "gradient norm, all parameters", NORM),
    ("temperature", "temperature", "temperature"),
)
_PERCENT = (ACCURACY, "points", "inputs, %")


@dataclass(frozen=True)
class Curve:
    """A variant in a panel: by x the middle and the ends of its band, and whether all runs have a value there.

    `marks` are the points where a run failed; by a tuned key, the point of the chosen value.
    """

    name: str
    x: Any
    middle: Any
    low: Any
    high: Any
    whole: Any
    marks: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Panel:
    """A titled drawing of curves. Panels of one `kind` share a figure, those of one `quantity` the limits of y too.

    `zero`: the value below which a log axis shows 0.
    """

    kind: str
    title: str
    x: str
    quantity: str
    curves: Sequence[Curve]
    log_x: bool = False
    zero: float | None = None

    @property
    def log_y(self) -> bool:
        """Whether the y axis is logarithmic."""
        return self.quantity == NORM

    @property
    def filled(self) -> bool:
        """Whether bands are drawn."""
        return len(self.curves) <= MOST_BANDS


def panels(section: Section) -> list[Panel]:
    """Returns the panels of a block that show something."""
    wanted = [("curves", *curve) for curve in _CURVES]
    for tag in _layer_tags(section, "grad_norm/", ".weight"):
        wanted.append(("layers", tag, f"gradient norm: {_layer(tag)}", NORM))
    for tag in _layer_tags(section, "op/", "/zero_gradient_fraction"):
        wanted.append(("layers", tag, f"inputs with gradient 0, %: {_layer(tag)}", "inputs, %"))
    zero = _norm_floor(section, [tag for _, tag, _, quantity in wanted if quantity == NORM])
    found = [_panel(section, *one, zero) for one in wanted]
    return [panel for panel in [*found, *_sensitivity(section)] if _shows(panel)]


def _shows(panel: Panel) -> bool:
    """Whether some curve moves or, except for temperatures, two curves differ."""
    finite = [curve.middle[np.isfinite(curve.middle)] for curve in panel.curves]
    groups = finite if panel.quantity == "temperature" else [np.concatenate([*finite, np.empty(0)])]
    return any(len(values) and np.ptp(values) > 0 for values in groups)


def _layer_tags(section: Section, start: str, end: str) -> list[str]:
    tags = dict.fromkeys(tag for seen in section.evidence.values() for tag in seen.bands)
    matching = [tag for tag in tags if tag.startswith(start) and tag.endswith(end)]
    if len(matching) <= MOST_LAYERS:
        return matching
    return [matching[round(i * (len(matching) - 1) / (MOST_LAYERS - 1))] for i in range(MOST_LAYERS)]


def _layer(tag: str) -> str:
    return tag.partition("/")[2].removesuffix("/zero_gradient_fraction")


def _panel(section: Section, kind: str, tag: str, title: str, quantity: str, floor: float) -> Panel:
    bands = {name: seen.bands[tag] for name, seen in section.evidence.items() if tag in seen.bands}
    zero = floor if quantity == NORM else None
    factor = 100.0 if quantity in _PERCENT else 1.0
    curves = [_curve(name, band, factor, zero, section.evidence[name].broke_off) for name, band in bands.items()]
    return Panel(kind, title, STEP, quantity, curves, zero=zero)


def _norm_floor(section: Section, tags: Sequence[str]) -> float:
    """Returns where the log axes of gradient norms show 0: a decade below the smallest positive middle."""
    bands = [seen.bands[tag] for seen in section.evidence.values() for tag in tags if tag in seen.bands]
    positive = [band.middle[np.isfinite(band.middle) & (band.middle > 0)] for band in bands]
    smallest = min((float(values.min()) for values in positive if len(values)), default=1.0)
    return max(smallest / 10, 1e-300)


def _curve(name: str, band: Band, factor: float, zero: float | None, failed: Sequence[int]) -> Curve:
    """Converts a band to the panel's unit, and thins it to the points that a drawing can show."""
    count = len(band.steps)
    keep = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(int))

    def on_axis(values: Any) -> Any:
        return np.maximum(values[keep] * factor, -np.inf if zero is None else zero)  # NaN stays NaN

    x, middle = band.steps[keep], on_axis(band.middle)
    last = [int(np.searchsorted(x, step, side="right")) - 1 for step in failed]
    marks = [(float(step), float(middle[at])) for step, at in zip(failed, last, strict=True) if at >= 0]
    return Curve(name, x, middle, on_axis(band.low), on_axis(band.high), band.n[keep] == band.of, marks)


def _sensitivity(section: Section) -> Iterator[Panel]:
    """Yields panels of validation accuracy by tuned key; for each value the other keys take their best."""
    choices = [choice for choice in section.result.choices if choice.trials > 1]
    for key in dict.fromkeys(key for choice in choices for values, _ in choice.curve for key in values):
        curves = [curve for choice in choices if len((curve := _by_value(key, choice)).x) > 1]
        if curves:
            positive = min(curve.x[0] for curve in curves) > 0
            title = f"validation accuracy by {short(key)}, %"
            yield Panel("sensitivity", title, key, "validation accuracy, %", curves, log_x=positive)


def _by_value(key: str, choice: TrialChoice) -> Curve:
    best: dict[float, Any] = {}
    for values, interval in choice.curve:
        value = values.get(key)
        if isinstance(value, (int, float)) and (value not in best or interval.mean > best[value].mean):
            best[value] = interval
    x = np.array(sorted(best))
    middle, low, high = (np.array([100 * getattr(best[value], end) for value in x]) for end in ("mean", "low", "high"))
    chosen = choice.trial.values.get(key)
    marks = [(float(chosen), 100 * best[chosen].mean)] if chosen in best else []
    return Curve(choice.variant.name, x, middle, low, high, np.ones(len(x), dtype=bool), marks)
