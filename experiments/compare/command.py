"""The command line of the comparison."""

from __future__ import annotations

import argparse
import shlex
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from experiments.compare.forms import readme
from experiments.compare.forms.aggregates import refuse_other_files, write_aggregates
from experiments.compare.forms.folder import write
from experiments.compare.forms.plain_text import render
from experiments.compare.processes import Workers
from experiments.compare.reading.collection import NoRuns
from experiments.compare.reading.sweeps import NoSweep
from experiments.compare.report import ComparisonReport, make
from experiments.compare.statistics.blocks import TUNED
from experiments.compare.statistics.intervals import METHODS
from experiments.compare.statistics.metric import Metric, WrongMetric
from experiments.compare.statistics.results import DEFAULT_BASELINE, Question
from experiments.terminal.console import short_path
from experiments.terminal.extras import install
from experiments.terminal.output import lasting_output
from experiments.tracking.outputs import OutputFailed, OutputRefused, check_folder, check_new_file, write_text

ERRORS = (NoRuns, NoSweep, WrongMetric, OutputRefused, OutputFailed, BrokenProcessPool, ModuleNotFoundError)


def _parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(
        prog="python -m experiments.compare",
        description="Which strategy, by how much, how sure, and why: from run folders alone.",
    )
    add = made.add_argument
    add("runs", nargs="+", type=Path, metavar="RUNS", help="run folders, or folders that hold them")
    add("--out", type=Path, metavar="FOLDER", help="write report.html, .md, .json, CSV and all figures there")
    add("--tensorboard", type=Path, metavar="FOLDER", help="write aggregate runs and images of the ops there")
    add(
        "--pictures",
        choices=("auto", "all", "none"),
        default="auto",
        help="of the ops: all of up to 40 runs, or one a variant",
    )
    add("--readme", type=Path, metavar="FILE", help="write the table of the README to this new file")
    add("--metric", default="accuracy/test", metavar="TAG", help="accuracy/... or loss/...; default %(default)s")
    add("--at", choices=("best", "last"), default="best", help="the best checkpoint on validation data, or the last")
    add("--baseline", default=DEFAULT_BASELINE, metavar="NAME", help="a strategy, or 'best'; default %(default)s")
    add("--method", choices=METHODS, default="t", help="of the intervals: t, or BCa bootstrap; default %(default)s")
    add("--half-width", type=_positive, default=None, metavar="H", help="for which to say how many seeds are needed")
    add("--tuned", default=",".join(TUNED), metavar="KEYS", help="keys of which each strategy gets its best value")
    add(
        "--choosing-seeds",
        type=_whole_numbers,
        metavar="SEEDS",
        help="seeds on which these are chosen, for instance 100,101,102",
    )
    add("--sweep", type=_whole_numbers, default=(), metavar="N", help="only runs of the sweeps of these numbers: 1,2")
    return made


@lasting_output()
def main(arguments: list[str] | None = None) -> int:
    """Prints the answer and writes the files asked for; 0 if all is well.

    1: a file could not be written; 2: the arguments are wrong, or there are no runs.
    """
    given = _parser().parse_args(arguments)
    try:
        _check_outputs(given)
        with Workers(visible=True) as workers:
            tuned = [key for key in given.tuned.split(",") if key]
            report = make(given.runs, question(given), tuned, workers, given.sweep)
            print(render(report))
            _write(report, given, workers)
    except ERRORS as error:
        return say(error)
    return 0


def say(error: Exception) -> int:
    """Prints the message of one of the ERRORS; the exit code."""
    print(f"error: {in_words(error)}", file=sys.stderr)
    return 1 if isinstance(error, OutputFailed) else 2


def in_words(error: Exception) -> str:
    """The message for the user about one of the ERRORS."""
    if isinstance(error, BrokenProcessPool):
        return "a process was ended from outside while it worked, perhaps for lack of memory"
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed; {install('compare')}"
    return str(error)


def question(given: argparse.Namespace) -> Question:
    """The arguments as a question; a half-width is in points of accuracy or in nats."""
    metric = Metric(given.metric, given.at)
    width = given.half_width
    if metric.kind == "accuracy":
        width = 0.01 if width is None else width / 100
    return Question(metric, given.baseline, given.method, 0.01 if width is None else width, given.choosing_seeds)


def _check_outputs(given: argparse.Namespace) -> None:
    """Raises OutputRefused for a place that cannot be written to."""
    if given.readme:
        check_new_file(given.readme)
    if given.tensorboard:
        check_folder(given.tensorboard)
        refuse_other_files(given.tensorboard)
    if given.out:
        check_folder(given.out)


def _write(report: ComparisonReport, given: argparse.Namespace, workers: Workers) -> None:
    if given.readme:
        write_text(given.readme, readme.render(report))
    if given.tensorboard:
        for problem in write_aggregates(report, given.tensorboard, given.pictures):
            print(f"note: {problem}", file=sys.stderr)
        print(f"\ncurves: tensorboard --logdir {shlex.quote(short_path(given.tensorboard))} --host 127.0.0.1")
    if given.out:
        print(f"\nreport: {short_path(write(report, given.out, workers))}")


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be more than 0, got {text}")
    return number


def _whole_numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be whole numbers with commas between them, got {text}") from None
