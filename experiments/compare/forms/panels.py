"""Makes the panels of a block: curves with bands, sensitivity to tuned values, differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.compare.forms.axes import draw_band, floor_of, linear, logarithmic, scale_band
from experiments.compare.forms.plain_text import printable
from experiments.compare.forms.tables import short
from experiments.compare.report import Section
from experiments.compare.statistics.bands import GAP
from experiments.compare.statistics.results import Question
from experiments.plotting import Look, looks

MOST_LAYERS = 12  # panels of one kind; curves.csv has all layers
MOST_BANDS = 8  # variants; more bands would hide the lines
_CURVES = (
    ("loss/train", "training loss", 1.0, False),
    ("loss/val", "validation loss, hard", 1.0, False),
    ("accuracy/val", "validation accuracy, hard, %", 100.0, False),
    ("accuracy/val_soft", "validation accuracy, soft, %", 100.0, False),
    (GAP, "gap: soft - hard accuracy, points", 100.0, False),
    ("grad_norm/total", "gradient norm, all parameters", 1.0, True),
    ("temperature", "temperature", 1.0, False),
)


@dataclass(frozen=True)
class Panel:
    """A titled drawing; `draw` draws it on axes. Panels of one `kind` share a figure."""

    kind: str
    title: str
    draw: Callable[[Any], None]


def panels(section: Section, question: Question) -> list[Panel]:
    """Returns all panels of a block that have data."""
    seen = looks(section.variants)
    found = [_curve(section, seen, "curves", *curve) for curve in _CURVES]
    for tag in _layer_tags(section, "grad_norm/", ".weight"):
        found.append(_curve(section, seen, "layers", tag, f"gradient norm: {_layer(tag)}", 1.0, True))
    for tag in _layer_tags(section, "op/", "/zero_gradient_fraction"):
        found.append(_curve(section, seen, "layers", tag, f"inputs with gradient 0, %: {_layer(tag)}", 100.0, False))
    return [panel for panel in [*found, *_sensitivity(section, seen), *_differences(section, question, seen)] if panel]


def _layer_tags(section: Section, start: str, end: str) -> list[str]:
    tags = dict.fromkeys(tag for seen in section.evidence.values() for tag in seen.bands)
    matching = [tag for tag in tags if tag.startswith(start) and tag.endswith(end)]
    if len(matching) <= MOST_LAYERS:
        return matching
    return [matching[round(i * (len(matching) - 1) / (MOST_LAYERS - 1))] for i in range(MOST_LAYERS)]


def _layer(tag: str) -> str:
    return tag.partition("/")[2].removesuffix("/zero_gradient_fraction")


def _curve(
    section: Section, seen: dict[str, Look], kind: str, tag: str, title: str, scale: float, log: bool
) -> Panel | None:
    bands = {name: scale_band(e.bands[tag], scale) for name, e in section.evidence.items() if tag in e.bands}
    if not bands:
        return None

    def draw(axes: Any) -> None:
        floor = floor_of(bands.values()) if log else None
        for name, band in bands.items():
            filled = len(bands) <= MOST_BANDS
            draw_band(axes, band, seen[name], floor, section.evidence[name].broke_off, filled)
        axes.set_xlabel("optimizer step")
        if log:
            logarithmic(axes, "y")
        else:
            linear(axes)

    return Panel(kind, title, draw)


def _sensitivity(section: Section, seen: dict[str, Look]) -> list[Panel]:
    """Makes panels of validation accuracy by tuned key; for each value the other keys take their best."""
    choices = [choice for choice in section.result.choices if choice.trials > 1]
    keys = dict.fromkeys(key for choice in choices for values, _ in choice.curve for key in values)
    return [panel for key in keys if (panel := _sensitivity_to(key, choices, seen))]


def _sensitivity_to(key: str, choices: Sequence[Any], seen: dict[str, Look]) -> Panel | None:
    curves = {choice.variant.name: _best_by_value(key, choice.curve) for choice in choices}
    curves = {name: curve for name, curve in curves.items() if len(curve) > 1}
    if not curves:
        return None

    def draw(axes: Any) -> None:
        for name, curve in curves.items():
            at = np.array(sorted(curve))
            mean = np.array([100 * curve[value].mean for value in at])
            half = np.nan_to_num([100 * curve[value].half_width for value in at])
            look = seen[name]
            style = {"color": look.colour, "linestyle": look.dash, "marker": look.marker, "markersize": 4}
            axes.errorbar(at, mean, half, capsize=2, linewidth=1.4, elinewidth=0.7, **style)
        if min(min(curve) for curve in curves.values()) > 0:
            logarithmic(axes, "x")
        axes.set_ylim(0, 101)  # intervals of few seeds reach beyond what an accuracy can be
        axes.set_xlabel(key)

    return Panel("sensitivity", f"validation accuracy by {short(key)}, %", draw)


def _best_by_value(key: str, curve: Sequence[tuple[dict[str, Any], Any]]) -> dict[float, Any]:
    best: dict[float, Any] = {}
    for values, interval in curve:
        value = values.get(key)
        if isinstance(value, (int, float)) and (value not in best or interval.mean > best[value].mean):
            best[value] = interval
    return best


def _differences(section: Section, question: Question, seen: dict[str, Look]) -> list[Panel]:
    found = section.result.differences
    if not found:
        return []
    scale, unit = (100.0, "points") if question.metric.kind == "accuracy" else (1.0, "nats")

    def draw(axes: Any) -> None:
        for row, difference in enumerate(found):
            look, interval = seen[difference.name], difference.interval
            axes.plot([scale * interval.low, scale * interval.high], [row, row], color=look.colour, linewidth=2)
            axes.plot(scale * interval.mean, row, marker=look.marker, color=look.colour, markersize=6)
        axes.axvline(0, color="0.4", linewidth=0.8)
        axes.set_yticks(range(len(found)), [printable(difference.name) for difference in found])
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_xlabel(unit)

    return [Panel("differences", f"difference to {found[0].baseline}, with 95 % interval", draw)]
