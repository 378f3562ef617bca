"""TensorBoard's run `about`: the columns of HParams, the layout of the charts, and what they show, in words."""

from __future__ import annotations

from pathlib import Path

from experiments.compare.forms import tables
from experiments.compare.forms.board_lines import Charts
from experiments.compare.forms.board_names import STRATEGY
from experiments.compare.forms.board_rows import SCORES, settings
from experiments.compare.forms.markdown import draw
from experiments.compare.forms.verdicts import sentence
from experiments.compare.report import ComparisonReport
from experiments.terminal.console import short_path
from experiments.tracking.about import NAME, colouring, key_table, text_summary, varied_and_common
from experiments.tracking.curve_layout import margin_layout_summary
from experiments.tracking.event_file import EventFile
from experiments.tracking.hparams import columns_summary

SHOWN = (
    "**Custom Scalars** has one line and band a strategy: from five seeds on their mean and its 95 % interval, below "
    "five their median and range. A strategy with one seed has a line only. **HParams** has one row a strategy: the "
    "mean score of its seeds. **Images** show what the ops compute."
)


def write(report: ComparisonReport, folder: Path, charts: Charts) -> None:
    """Writes `about`."""
    varied, common = varied_and_common(settings(report))
    with EventFile(folder / NAME) as file:
        file.add(margin_layout_summary(charts))
        file.add(columns_summary(varied or ["strategy"], {f"score/{tag}": title for tag, title in SCORES.items()}))
        file.add(text_summary(NAME, _text(report, common)))


def _text(report: ComparisonReport, common: dict[str, object]) -> str:
    """What is shown, the seeds and scores of every variant, the colours, and what is the same in all runs."""
    paths = ", ".join(f"`{short_path(root)}`" for root in report.roots)
    scores = [(section, tables.scores(section, report.question)) for section in report.sections]
    answers = [f"**{section.name}**: {sentence(section.result, report.question)}" for section, _ in scores]
    blocks = ["\n".join([answer, "", *draw(table)]) for answer, (_, table) in zip(answers, scores, strict=True)]
    notes = dict.fromkeys(table.note for _, table in scores)
    same = "The same in all these runs:\n\n" + key_table(common)
    return "\n\n".join([f"Runs of {paths}.", SHOWN, *blocks, *notes, colouring(STRATEGY), same])
