"""The comparison for Python and notebooks: a call that answers as text, as HTML and as a frame."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from experiments.compare.forms import tables
from experiments.compare.forms.folder import write
from experiments.compare.forms.plain_text import counts, render
from experiments.compare.forms.verdicts import remarks, sentence
from experiments.compare.processes import Workers
from experiments.compare.report import ComparisonReport, Section, make
from experiments.compare.statistics.blocks import TUNED
from experiments.compare.statistics.metric import Metric
from experiments.compare.statistics.results import DEFAULT_BASELINE, Question
from experiments.terminal.extras import needing
from experiments.tracking.outputs import check_folder
from surrogates.naming.html import table

if TYPE_CHECKING:
    import pandas as pd


class HasFolders(Protocol):
    """A sweep: its run folders, those of failed runs included."""

    @property
    def folders(self) -> Sequence[Path]:
        """The run folders."""


class Comparison:
    """What `hardgrad compare` answers: `print` shows its text, a notebook its tables."""

    def __init__(self, report: ComparisonReport) -> None:
        self.report = report

    def __str__(self) -> str:
        return render(self.report)

    def _repr_html_(self) -> str:
        """The tables of every block, and the notes."""
        parts = [f"<p>{escape(counts(self.report))}</p>"]
        for section in self.report.sections:
            answer = sentence(section.result, self.report.question)
            parts.append(f"<h4>{escape(section.name)}</h4><p><b>{escape(answer)}</b></p>")
            parts += [table(one.title, one.header, one.rows) for one in tables.of(section, self.report.question)]
            parts += [f"<p>{escape(note)}</p>" for note in remarks(section.result, self.report.question)]
        return "\n".join([*parts, *(f"<p>{escape(note)}</p>" for note in self.report.notes)])

    def to_frame(self) -> pd.DataFrame:
        """One row a variant: its score with interval, and its difference to the baseline; NaN where there is none."""
        with needing("compare"):
            import pandas as pd
        return pd.DataFrame([row for section in self.report.sections for row in _rows(section)])

    def save(self, folder: str | Path) -> Path:
        """Writes the report as the command's `--out` does; the path of its page. Raises OutputRefused, OutputFailed."""
        check_folder(Path(folder))
        with needing("compare"):
            return write(self.report, Path(folder), Workers(most=1))


def compare(
    *runs: str | os.PathLike[str] | HasFolders | Iterable[str | os.PathLike[str]],
    baseline: str = DEFAULT_BASELINE,
    metric: str = "accuracy/test",
    at: Literal["best", "last"] = "best",
    tuned: Sequence[str] = TUNED,
    margin: float | None = None,
) -> Comparison:
    """Compares runs: folders, single runs, the runs of `sweep`, tables (`.csv`, `.jsonl`), or lists of these.

    `baseline` is a strategy, or `best`, the best on the seeds that chose. `at` is the best checkpoint on validation
    data, or the last. Each strategy gets its best value of the keys `tuned`. `margin`, in points or nats, is the
    largest difference that does not matter. Raises NoRuns, WrongMetric or WrongTable. Needs the extra `compare`.
    """
    folders = [folder for one in runs for folder in _folders(one)]
    with needing("compare"):
        wanted = Metric(metric, at)
        return Comparison(make(folders, Question(wanted, baseline, wanted.in_own_unit(margin)), tuned))


def _folders(runs: Any) -> list[Path]:
    if isinstance(runs, str | os.PathLike):
        return [Path(runs)]
    if hasattr(runs, "folders"):
        return list(runs.folders)
    return [folder for one in runs for folder in _folders(one)]


def _rows(section: Section) -> Iterator[dict[str, Any]]:
    differences = {difference.name: difference for difference in section.result.differences}
    for choice, score in zip(section.result.choices, section.result.scores, strict=True):
        row: dict[str, Any] = {"block": section.name, "strategy": score.name}
        row |= {"n": score.interval.n if score.interval else 0, **_ends("", score.interval)}
        row |= {"training_loss": score.training_loss and score.training_loss.mean}
        row |= {"failed": score.failed and score.failed.failed, "same_as": score.same_as}
        row |= {"chosen": tables.chosen_values(choice), "not_done": score.failures}
        found = differences.get(score.name)
        row |= {"baseline": found and found.baseline, **_ends("difference_", found and found.interval)}
        row |= {"p": found and found.p, "p_ranks": found and found.p_ranks}
        yield row | {"p_equivalent": found and found.p_equivalent, "verdict": found and found.verdict}


def _ends(prefix: str, interval: Any) -> dict[str, float | None]:
    return {f"{prefix}{end}": None if interval is None else getattr(interval, end) for end in ("mean", "low", "high")}
