"""Writes the predictions of training by the gradient's truth as a table in Markdown, as CSV and as a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.compare.forms.machine_files import write_csv
from experiments.compare.forms.markdown import draw
from experiments.compare.forms.tables import TextTable
from experiments.oracles.intervals import Interval
from experiments.plotting import COLOURS, MARKERS, style
from experiments.study.stage import TrialRun
from experiments.study.truth.measures import MEASURES, MeasuredRun, read_measured
from experiments.study.truth.prediction import Prediction, predictions
from experiments.tracking.outputs import save_figure

EXPLANATION = """\
Each number is a rank correlation within a component, as mean over the components, with its 95 % interval. Above 0, a
truer gradient at that step goes with better training. Ranks are means over the seeds. The interval is a bootstrap over
the pairs of each component; each interval stands alone."""


def write_truth(runs: Sequence[TrialRun], folder: Path) -> str:
    """Writes `truth.csv` and `truth.svg` into the folder, and gives the table in Markdown.

    Without diagnostics, or with too few pairs in every component, it writes nothing and gives empty text.
    Raises OutputFailed if a file cannot be written.
    """
    measured = [found for one in runs if (found := read_measured(one)) is not None]
    rows = predictions(measured)
    if not any(row.all for row in rows):
        return ""
    write_csv(folder / "truth.csv", map(_cells, rows))
    with style():
        save_figure(figure(rows), folder / "truth.svg", metadata={"Date": None})
    return "\n".join(_markdown(rows, measured)) + "\n"


def _markdown(rows: Sequence[Prediction], measured: Sequence[MeasuredRun]) -> Iterator[str]:
    pairs = dict.fromkeys((run.component, run.optimizer, run.name) for run in measured)
    components = dict.fromkeys(run.component for run in measured)
    yield f"{EXPLANATION} There are {len(pairs)} pairs of {len(components)} components and {len(measured)} runs."
    steps = list(dict.fromkeys(row.step for row in rows))
    for optimizer, outcome in dict.fromkeys((row.optimizer, row.outcome) for row in rows):
        own = [row for row in rows if (row.optimizer, row.outcome) == (optimizer, outcome)]
        yield from ("", f"{optimizer}, {outcome}:", "")
        heads = [*(f"step {step}" for step in steps), f"step {steps[0]}, gradient not 0"]
        lines = [[row for row in own if row.measure == measure] for measure in MEASURES]
        cells = [[line[0].measure, *map(_text, [*(row.all for row in line), line[0].nonzero])] for line in lines]
        yield from draw(TextTable("", ["measure", *heads], cells))
    yield ""
    yield from (f"- {name}: {meaning}" for name, meaning in MEASURES.items())


def _text(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.mean:+.2f} ({interval.low:+.2f} to {interval.high:+.2f})"


def _cells(row: Prediction) -> dict[str, Any]:
    named = {"optimizer": row.optimizer, "outcome": row.outcome, "measure": row.measure, "step": row.step}
    return named | _numbers("all", row.all) | _numbers("nonzero", row.nonzero)


def _numbers(name: str, one: Interval | None) -> dict[str, Any]:
    values = ("", "", "", 0) if one is None else (one.mean, one.low, one.high, one.n)
    return {f"{name}_{end}": value for end, value in zip(("mean", "low", "high", "pairs"), values, strict=True)}


def figure(rows: Sequence[Prediction]) -> Any:
    """Draws the correlations with a low training loss at the end: a panel for each optimizer, a mark for each step."""
    shown = [row for row in rows if row.outcome == "training loss" and row.all is not None]
    optimizers = list(dict.fromkeys(row.optimizer for row in shown))
    with style() as figure_class:
        drawn = figure_class(figsize=(4 * len(optimizers) + 1.4, 3.4), layout="constrained")
        panels = drawn.subplots(1, len(optimizers), sharey=True, squeeze=False)[0]
        for panel, optimizer in zip(panels, optimizers, strict=True):
            _draw(panel, [row for row in shown if row.optimizer == optimizer])
            panel.set(title=optimizer, xlabel="rank correlation with a low training loss", xlim=(-1, 1))
        panels[0].set_yticks(range(len(MEASURES)), MEASURES)
        panels[0].invert_yaxis()
        drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return drawn


def _draw(panel: Any, rows: Sequence[Prediction]) -> None:
    steps = list(dict.fromkeys(row.step for row in rows))
    panel.axvline(0, color="#999999", linewidth=1)
    for place, step in enumerate(steps):
        found = [(row.measure, row.all) for row in rows if row.step == step and row.all is not None]
        heights = [list(MEASURES).index(name) + 0.22 * (place - (len(steps) - 1) / 2) for name, _ in found]
        means = [one.mean for _, one in found]
        ends = [[one.mean - one.low for _, one in found], [one.high - one.mean for _, one in found]]
        look = {"fmt": MARKERS[place % len(MARKERS)], "color": COLOURS[1 + place], "markersize": 4}
        panel.errorbar(means, heights, xerr=ends, label=f"step {step}", **look)
