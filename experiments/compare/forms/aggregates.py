"""Writes a log folder for TensorBoard: a line with its band a strategy, a row of HParams, and a text about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from experiments.compare.forms import board_about, board_lines, board_rows
from experiments.compare.forms.board_rows import Pictures
from experiments.compare.report import ComparisonReport
from experiments.terminal.console import short_path
from experiments.tracking.event_file import EVENT_FILES
from experiments.tracking.outputs import OutputRefused, naming

MARK = ".hardgrad-aggregates"  # marks a folder that holds only these files
MOST_PICTURED = 40  # runs; if there are more, only the first of each variant gets pictures


class FolderTaken(OutputRefused):
    """Raised if the log folder has files that are not from an earlier report."""


def refuse_other_files(folder: Path) -> None:
    """Raises FolderTaken if the folder has other files."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise FolderTaken(f"{folder} has files that are not from an earlier report; choose another log folder")


def write_aggregates(
    report: ComparisonReport, folder: Path, pictures: Literal["auto", "all", "none"] = "auto"
) -> list[str]:
    """Writes the log folder, replacing an earlier one; returns which ops could not be pictured, and why.

    - `mean/<strategy>` has each tag's mean, and the ends of its band as lower/<tag> and upper/<tag>; if there are
      several blocks, each tag begins with the block's name
    - `seeds/<block>/<strategy>/seed=<n>` has the score and hyperparameters of a run, and pictures of its ops
    - `about` has the columns of HParams, the layout of the charts, and a text

    `pictures`: `all` runs, `none`, or `auto`: all of up to 40 runs, else the first run of each variant.
    Raises FolderTaken if the folder has other files.
    Raises OutputFailed if a file cannot be written.
    """
    refuse_other_files(folder)
    with naming(folder), _replacing_event_files(folder):
        lines = board_lines.write(report, folder)
        board_about.write(report, folder, lines)
        problems = board_rows.write(report, folder, pictures if pictures != "auto" else _which(report))
    return [
        f"{short_path(runs[0])}{f' and {len(runs) - 1} more' * (len(runs) > 1)}: {problem}"
        for problem, runs in problems.items()
    ]


def _which(report: ComparisonReport) -> Pictures:
    runs = sum(len(choice.runs) for section in report.sections for choice in section.result.choices)
    return "all" if runs <= MOST_PICTURED else "first"


@contextmanager
def _replacing_event_files(folder: Path) -> Iterator[None]:
    """Replaces the earlier event files by those that the block writes; after an error the earlier ones stay."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
    earlier = set(folder.rglob(EVENT_FILES))
    try:
        yield
    except BaseException:
        _remove(set(folder.rglob(EVENT_FILES)) - earlier)
        raise
    _remove(earlier)


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink()
