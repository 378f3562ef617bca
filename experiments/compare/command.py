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
from experiments.compare.reading.table_lines import WrongTable
from experiments.compare.report import ComparisonReport, make
from experiments.compare.statistics.blocks import TUNED
from experiments.compare.statistics.family import SCOPES
from experiments.compare.statistics.metric import Metric, WrongMetric
from experiments.compare.statistics.results import DEFAULT_BASELINE, Question
from experiments.terminal.console import fold, short_path
from experiments.terminal.extras import install
from experiments.terminal.output import lasting_output
from experiments.tracking.outputs import OutputFailed, OutputRefused, check_folder, check_new_file, write_text

ERRORS = (NoRuns, NoSweep, WrongMetric, WrongTable, OutputRefused, OutputFailed, BrokenProcessPool, ModuleNotFoundError)


def _parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(
        prog="hardgrad compare",
        description="Says which strategy is best, by how much, how sure that is, and why, from runs or tables.",
    )
    add = made.add_argument
    add("runs", nargs="+", type=Path, metavar="RUNS", help="run folders, folders that hold them, .csv or .jsonl")
    add("--out", type=Path, metavar="FOLDER", help="write report.html, .md, .json, CSV tables and figures there")
    add("--tensorboard", type=Path, metavar="FOLDER", help="write mean, band and pictures of the ops for TensorBoard")
    pictures = "picture the ops of all runs, of none, or (auto) of all up to 40 runs and else of one run a variant"
    add("--pictures", choices=("auto", "all", "none"), default="auto", help=pictures)
    add("--readme", type=Path, metavar="FILE", help="write a table like the README's to this new file")
    add("--metric", default="accuracy/test", metavar="TAG", help="accuracy/... or loss/...; default %(default)s")
    add("--at", choices=("best", "last"), default="best", help="the best checkpoint on validation data, or the last")
    baseline = "compare with this strategy, or with the 'best' one on the seeds that chose; default %(default)s"
    add("--baseline", default=DEFAULT_BASELINE, metavar="NAME", help=baseline)
    margin = "the largest difference that does not matter, in points or nats; without it nothing is called equivalent"
    add("--margin", type=_positive, default=None, metavar="M", help=margin)
    family = "intervals hold together for all pairs of strategies of the report, or of one block; default %(default)s"
    add("--family", choices=SCOPES, default="report", help=family)
    width = "say how many seeds narrow the half-width to H points, or nats; default 1 point, 0.01 nats"
    add("--half-width", type=_positive, default=None, metavar="H", help=width)
    tuned = "score each strategy at its own best values of these keys; default %(default)s"
    add("--tuned", default=",".join(TUNED), metavar="KEYS", help=tuned)
    seeds = "choose these values on these seeds and report the other seeds, for instance 100,101,102"
    add("--choosing-seeds", type=_whole_numbers, metavar="SEEDS", help=seeds)
    add("--sweep", type=_whole_numbers, default=(), metavar="N", help="compare only the runs of these sweeps: 1,2")
    return made


@lasting_output()
def main(arguments: list[str] | None = None) -> int:
    """Prints the answer, writes the requested files and returns the exit code.

    0: all is well. 1: a file could not be written. 2: the arguments are wrong, or there are no runs.
    """
    given = _parser().parse_args(arguments)
    try:
        _check_outputs(given)
        with Workers(visible=True) as workers:
            tuned = [key for key in given.tuned.split(",") if key]
            report = make(given.runs, question(given), tuned, workers, given.sweep)
            print(render(report))
            _write(report, given, workers, shlex.join(["hardgrad", "compare", *(arguments or sys.argv[1:])]))
    except ERRORS as error:
        return say(error)
    return 0


def say(error: Exception) -> int:
    """Prints the message of one of the ERRORS and returns the exit code."""
    print(f"error: {in_words(error)}", file=sys.stderr)
    return 1 if isinstance(error, OutputFailed) else 2


def in_words(error: Exception) -> str:
    """Returns the message for one of the ERRORS."""
    if isinstance(error, BrokenProcessPool):
        return "another program ended a worker process, perhaps because memory ran out"
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed; {install('compare')}"
    return str(error)


def question(given: argparse.Namespace) -> Question:
    """Converts the arguments to a question; half-width and margin are given in points of accuracy or in nats."""
    metric = Metric(given.metric, given.at)
    return Question(
        metric,
        given.baseline,
        metric.in_own_unit(given.margin),
        metric.in_own_unit(given.half_width) or 0.01,
        given.choosing_seeds,
        given.family,
    )


def _check_outputs(given: argparse.Namespace) -> None:
    """Raises OutputRefused if an output cannot be written."""
    if given.readme:
        check_new_file(given.readme)
    if given.tensorboard:
        check_folder(given.tensorboard)
        refuse_other_files(given.tensorboard)
    if given.out:
        check_folder(given.out)


def _write(report: ComparisonReport, given: argparse.Namespace, workers: Workers, command: str) -> None:
    if given.readme:
        write_text(given.readme, readme.render(report))
    if given.tensorboard:
        for problem in write_aggregates(report, given.tensorboard, given.pictures):
            print(fold(f"note: {problem}"), file=sys.stderr)
        print(f"\ncurves: tensorboard --logdir {shlex.quote(short_path(given.tensorboard))} --host 127.0.0.1")
    if given.out:
        print(f"\nreport: {short_path(write(report, given.out, workers, command))}")


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text}")
    return number


def _whole_numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be whole numbers separated by commas, got {text}") from None
