"""Writes the analysis of variance of a study as tables in Markdown, as CSV and as a figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.compare.forms.machine_files import write_csv
from experiments.compare.forms.markdown import draw, escape
from experiments.compare.forms.tables import NONE, TextTable, p_value
from experiments.plotting import style
from experiments.study.stage import TrialRun
from experiments.study.variance.anova import Term, analyse, ranges
from experiments.study.variance.design import Design, arrange
from experiments.study.variance.figure import figure
from experiments.sweep.listing import as_typed
from experiments.tracking.outputs import save_figure

EXPLANATION = """\
- Scores are validation accuracies of the choosing seeds. In each combination of levels the other keys of the grids have
  their best values, by the mean over these seeds. This choice raises the scores of a combination, and more so if
  several values are about equally good.
- The seed is a term because it gives all combinations the same initial weights and batches.
- share: sum of squares divided by the total (eta squared). F: mean square divided by that of the residual.
- p: not corrected for the number of terms. It assumes residuals of equal variance.
- range: the highest minus the lowest mean of the factor's levels, in points. range at best: the same, but each level
  counts with its best combination only."""
HEADER = ("term", "df", "share %", "F", "p", "range", "range at best")


def write_variance(runs: Sequence[TrialRun], factors: Sequence[str], folder: Path) -> str:
    """Writes `variance.csv` and `variance.svg` into the folder, and returns the tables in Markdown.

    Raises OutputFailed if a file cannot be written.
    """
    designs = arrange(runs, factors)
    analysed = [design for design in designs if not design.obstacle]
    write_csv(folder / "variance.csv", (cells for design in analysed for cells in _cells(design)))
    lines = [EXPLANATION, _count_runs(runs)]
    if analysed:
        with style():
            save_figure(figure(analysed), folder / "variance.svg", metadata={"Date": None})
        lines = ["![validation accuracy by factors](variance.svg)", "", *lines]
    return "\n".join([*lines, *(line for design in designs for line in _markdown(design))]) + "\n"


def _count_runs(runs: Sequence[TrialRun]) -> str:
    diverged = sum(one.run.failed for one in runs)
    counted = f"{len(runs)} runs, of which {diverged} diverged"
    return f"- {counted}. A combination with a diverged run at its best value counts as absent."


def _markdown(design: Design) -> Iterator[str]:
    levels = [f"{len(own)} levels of {factor}" for factor, own in design.levels.items()]
    yield from ("", f"{escape(design.group)}: {escape(', '.join(levels))}, {design.scores.shape[-1]} seeds", "")
    for factor, left_out in design.left_out.items():
        if left_out:
            named = f"{factor} {', '.join(map(as_typed, left_out))}"
            yield from (f"Left out, because a combination is absent: {escape(named)}.", "")
    if design.obstacle:
        yield f"No analysis: {escape(design.obstacle)}."
        return
    yield from draw(TextTable("", HEADER, [_texts(*row) for row in _rows(design)]))


def _rows(design: Design) -> Iterator[tuple[Term, Sequence[float]]]:
    """The terms; a factor has its two ranges, another term none."""
    for term in analyse(design.scores, list(design.levels)):
        yield term, ranges(design.scores, term.factors[0]) if len(term.factors) == 1 else ()


def _texts(term: Term, spread: Sequence[float]) -> list[str]:
    test = [NONE, NONE] if math.isnan(term.f) else [f"{term.f:.2f}", p_value(term.p)]
    points = [f"{100 * value:.1f}" for value in spread] or [NONE, NONE]
    return [term.name, str(term.df), f"{100 * term.share:.1f}", *test, *points]


def _cells(design: Design) -> Iterator[dict[str, Any]]:
    for term, spread in _rows(design):
        between, at_best = spread or (math.nan, math.nan)
        numbers = {"sum_of_squares": term.squares, "share": term.share, "F": term.f, "p": term.p}
        numbers |= {"range": between, "range_at_best": at_best}
        known = {name: "" if math.isnan(value) else value for name, value in numbers.items()}
        yield {"group": design.group, "term": term.name, "df": term.df, **known}
