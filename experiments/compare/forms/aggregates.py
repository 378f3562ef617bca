"""Writes a log folder for TensorBoard: mean and band of every variant, and a row of HParams for every reported run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from experiments.compare.forms.overview import overview
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.report import ComparisonReport, Section
from experiments.compare.statistics.bands import GAP, Band
from experiments.compare.statistics.metric import Metric
from experiments.compare.statistics.tuning import TrialChoice
from experiments.config.settings import GROUPS
from experiments.terminal.console import short_path
from experiments.tracking.curve_layout import margin_layout_summary
from experiments.tracking.event_file import EventFile
from experiments.tracking.hparams import columns_summary, end_summary, hparam_values, row_summary
from experiments.tracking.outputs import OutputRefused, naming

MARK = ".hardgrad-aggregates"  # marks a folder that holds only these files
EVENT_FILES = "events.out.tfevents.*"
LONGEST_NAME = 120  # bytes of a folder's name, which may be 255
MOST_PICTURED = 40  # runs; if there are more, only the first of each variant gets pictures
LOWER, UPPER = "lower", "upper"
_SCORES = ("accuracy/test", "accuracy/val", "loss/val")
_BANDS = {  # in the order in which they are shown: TensorBoard takes the last one first
    "training loss": "loss/train",
    "validation loss, hard": "loss/val",
    "validation accuracy, hard": "accuracy/val",
    "validation accuracy, soft": "accuracy/val_soft",
    "gap, soft - hard accuracy": GAP,
    "gradient norm, before clipping": "grad_norm/total",
    "temperature": "temperature",
}


class FolderTaken(OutputRefused):
    """Raised if the log folder has files that are not from an earlier report."""


def refuse_other_files(folder: Path) -> None:
    """Raises FolderTaken if the folder has other files."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise FolderTaken(f"{folder} has files that are not from an earlier report; choose another log folder")


def write_aggregates(report: ComparisonReport, folder: Path, pictures: str = "auto") -> list[str]:
    """Writes the log folder, replacing an earlier one; returns which ops could not be pictured, and why.

    - `mean/<block>/<strategy>` has each tag's mean, and the ends of its band as lower/<tag> and upper/<tag>
    - `seeds/<block>/<strategy>/seed=<n>` has the score and hyperparameters of a run, and pictures of its ops

    `pictures`: `all` runs, `none`, or `auto`: all of up to 40 runs, else the first run of each variant.
    Raises FolderTaken if the folder has other files.
    Raises OutputFailed if a file cannot be written.
    """
    refuse_other_files(folder)
    with naming(folder), _replacing_event_files(folder):
        return _write(report, folder, pictures)


def _write(report: ComparisonReport, folder: Path, pictures: str) -> list[str]:
    few = sum(len(choice.runs) for section in report.sections for choice in section.result.choices) <= MOST_PICTURED
    everyone = pictures == "all" or (pictures == "auto" and few)
    problems: dict[str, list[Path]] = {}
    columns = _columns(report)
    for block, section in zip(_block_names(report), report.sections, strict=True):
        for choice in section.result.choices:
            name = safe(choice.variant.name)
            _write_bands(section, choice.variant.name, folder / "mean" / block / name)
            for position, run in enumerate(choice.runs):
                pictured = pictures != "none" and (everyone or position == 0)
                home = folder / "seeds" / block / name / f"seed={run.seed}"
                problem = _write_session(run, choice, f"{block}/{name}", columns, home, pictured)
                if problem:
                    problems.setdefault(problem, []).append(run.path)
    return [
        f"{short_path(runs[0])}{f' and {len(runs) - 1} more' * (len(runs) > 1)}: {problem}"
        for problem, runs in problems.items()
    ]


def _block_names(report: ComparisonReport) -> list[str]:
    """Returns a folder name for every block."""
    names = [safe(name) for name in overview(report)[0]]
    return [name if names.count(name) == 1 else f"{name}-{index}" for index, name in enumerate(names)]


def _columns(report: ComparisonReport) -> list[str]:
    """Lists the columns of HParams: the options that vary, the tuned keys, and the keys that make the blocks."""
    options = [g for g in GROUPS if g in ("component", "strategy") or len({run.options[g] for run in report.runs}) > 1]
    parts = [part for section in report.sections for part in section.result.block.parts if "=" in part]
    return list(dict.fromkeys([*options, *report.tuned, *(part.partition("=")[0] for part in parts)]))


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


def safe(name: str) -> str:
    """Converts a name to a folder name, which TensorBoard shows as the name of the run."""
    plain = "".join(letter if letter.isalnum() or letter in " =,.()+-_" else "_" for letter in name)
    return plain.encode()[:LONGEST_NAME].decode(errors="ignore")


def _write_bands(section: Section, variant: str, folder: Path) -> None:
    bands = section.evidence[variant].bands
    with EventFile(folder) as file:
        file.add(margin_layout_summary({title: _ends(tag) for title, tag in _BANDS.items()}))
        for step, values in _by_step(bands):
            file.scalars(step, values)


def _ends(tag: str) -> tuple[str, str, str]:
    """Tags of mean, lower and upper end."""
    return tag, f"{LOWER}/{tag}", f"{UPPER}/{tag}"


def _by_step(bands: dict[str, Band]) -> Iterator[tuple[int, dict[str, float]]]:
    """Yields the finite values of each step; the ends of a single run's band equal its mean."""
    rows: dict[int, dict[str, float]] = {}
    for tag, band in bands.items():
        low, high = (np.where(np.isnan(end), band.mean, end) for end in (band.low, band.high))
        for name, values in zip(_ends(tag), (band.mean, low, high), strict=True):
            for step, value in zip(band.steps.tolist(), values.tolist(), strict=True):
                if np.isfinite(value):
                    rows.setdefault(step, {})[name] = value
    yield from sorted(rows.items())


def _write_session(
    run: RunRecord, choice: TrialChoice, group: str, columns: Sequence[str], folder: Path, pictured: bool
) -> str:
    """Writes a run of HParams, which averages the runs of a `group` into one row; returns why there are no pictures."""
    settings = hparam_values({**run.options, "strategy": choice.variant.name, **run.config}, columns)
    shown = {name: settings[name] for name in columns}
    values = {f"score/{tag}": Metric(tag).of(run) for tag in _SCORES}
    scores = {tag: value for tag, value in values.items() if value is not None and math.isfinite(value)}
    with EventFile(folder) as file:
        file.add(columns_summary(shown, [f"score/{tag}" for tag in _SCORES]))
        file.add(row_summary(shown, group))
        step = int(run.best.get("step", run.config.get("max_steps", 0)) or 0)
        file.scalars(step, scores)
        problem = _write_pictures(run, file, step) if pictured and run.outcome == "done" else ""
        file.add(end_summary(run.outcome == "done"))
    return problem


def _write_pictures(run: RunRecord, file: EventFile, step: int) -> str:
    from experiments.compare.explaining.op_response import responses
    from experiments.compare.forms.op_images import png

    try:
        drawn = {f"op/{response.layer}": png(response) for response in responses(run.path)}
    except Exception as error:  # for example no checkpoint, or another version: the rest of the report is still written
        text: Any = str(error).splitlines()
        return f"ops cannot be pictured ({type(error).__name__}: {text[0] if text else ''})"
    for tag, picture in drawn.items():
        file.picture(tag, picture, step)
    return ""
