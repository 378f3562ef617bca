"""TensorBoard's lines: one run a strategy, with mean and band of every tag, and the charts that show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from experiments.compare.forms.board_names import block_names, safe
from experiments.compare.report import ComparisonReport
from experiments.compare.statistics.bands import GAP, Band
from experiments.tracking.event_file import EventFile

LOWER, UPPER = "lower", "upper"
CHARTS = {
    "validation accuracy, hard": "accuracy/val",
    "validation loss, hard": "loss/val",
    "training loss": "loss/train",
    "gradient norm, before clipping": "grad_norm/total",
    "validation accuracy, soft": "accuracy/val_soft",
    "gap, soft - hard accuracy": GAP,
    "temperature": "temperature",
}

Ends = tuple[str, str, str]  # tags of mean, lower and upper end
Charts = dict[str, dict[str, Ends]]  # by block and title


def write(report: ComparisonReport, folder: Path) -> Charts:
    """Writes `mean/<strategy>` for every variant; returns the charts of every block that have a line."""
    blocks = block_names(report)
    prefixes = [f"{name}/" for name in blocks] if len(blocks) > 1 else [""]
    variants = dict.fromkeys(name for section in report.sections for _, name in section.variants)
    for variant in variants:
        found = {
            f"{prefix}{tag}": band
            for prefix, section in zip(prefixes, report.sections, strict=True)
            if variant in section.evidence
            for tag, band in section.evidence[variant].bands.items()
        }
        with EventFile(folder / "mean" / safe(variant)) as file:
            for step, values in _by_step(found):
                file.scalars(step, values)
    charts: Charts = {}
    for block, prefix, section in zip(blocks, prefixes, report.sections, strict=True):
        every = [seen.bands for seen in section.evidence.values()]
        shown = [(title, tag) for title, tag in CHARTS.items() if _varies(tag, every)]
        charts[block] = {title: _ends(f"{prefix}{tag}") for title, tag in shown}
    return charts


def _varies(tag: str, every: list[dict[str, Band]]) -> bool:
    """Whether a chart of the tag shows more than one value."""
    return len({float(value) for bands in every if tag in bands for value in bands[tag].mean}) > 1


def _ends(tag: str) -> Ends:
    """Tags of mean, lower and upper end."""
    return tag, f"{LOWER}/{tag}", f"{UPPER}/{tag}"


def _by_step(bands: Mapping[str, Band]) -> Iterator[tuple[int, dict[str, float]]]:
    """Yields the finite values of each step; the ends of a single run's band equal its mean."""
    rows: dict[int, dict[str, float]] = {}
    for tag, band in bands.items():
        low, high = (np.where(np.isnan(end), band.middle, end) for end in (band.low, band.high))
        for name, values in zip(_ends(tag), (band.middle, low, high), strict=True):
            for step, value in zip(band.steps.tolist(), values.tolist(), strict=True):
                if np.isfinite(value):
                    rows.setdefault(step, {})[name] = value
    yield from sorted(rows.items())
