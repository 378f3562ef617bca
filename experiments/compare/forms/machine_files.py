"""Writes the report for programs: one strict JSON file, and CSV tables of runs, scores, differences and curves."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from experiments.compare.forms.verdicts import remarks, sentence
from experiments.compare.reading.run_record import RunRecord
from experiments.compare.report import ComparisonReport, Section, environment, row, varied_keys
from experiments.compare.statistics.results import Question
from experiments.compare.statistics.tuning import TrialChoice
from experiments.tracking.outputs import naming, output_file
from experiments.tracking.strict_json import write_json

FORMAT = 2
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # first letters of text that spreadsheets evaluate
_METRICS = ("accuracy/val", "accuracy/test", "accuracy/val_soft", "loss/val", "loss/train")


def write_machine_files(report: ComparisonReport, folder: Path) -> None:
    """Writes report.json, runs.csv, scores.csv, differences.csv and curves.csv.

    Raises OutputFailed if a file cannot be written.
    """
    with naming(folder / "report.json"):
        write_json(folder / "report.json", as_json(report))
    write_csv(folder / "runs.csv", _runs(report))
    write_csv(folder / "scores.csv", [row for section in report.sections for row in _scores(section)])
    write_csv(folder / "differences.csv", [row for section in report.sections for row in _differences(section)])
    write_csv(folder / "curves.csv", (row for section in report.sections for row in _curves(section)))


def as_json(report: ComparisonReport) -> dict[str, Any]:
    """Returns all of the report except the curves; numbers that are not finite are strings."""
    return {
        "format": FORMAT,
        "answers": {section.name: sentence(section.result, report.question) for section in report.sections},
        "roots": [str(root) for root in report.roots],
        "question": dataclasses.asdict(report.question),
        "tuned": list(report.tuned),
        "sweeps": [dataclasses.asdict(sweep) for sweep in report.sweeps],
        "notes": report.notes,
        "environment": environment(report.runs),
        "varied": varied_keys(report.runs),
        "blocks": [_block(section, report.question) for section in report.sections],
        "runs": _runs(report),
    }


def _block(section: Section, question: Question) -> dict[str, Any]:
    result = section.result
    return {
        "name": section.name,
        "answer": sentence(result, question),
        "verdict": dataclasses.asdict(result.verdict),
        "family": {**dataclasses.asdict(result.family), "level": result.family.level(), "words": str(result.family)},
        "component": result.block.component,
        "not_applicable": result.block.absent,
        "seeds": dataclasses.asdict(result.seeds),
        "scores": [dataclasses.asdict(score) for score in result.scores],
        "differences": [dataclasses.asdict(difference) for difference in result.differences],
        "training_tag": result.training_tag,
        "controls": [dataclasses.asdict(difference) for difference in result.controls],
        "tuning": {choice.variant.name: _choice(choice) for choice in result.choices},
        "budgets": dataclasses.asdict(section.budgets),
        "at_budgets": {name: dataclasses.asdict(seen.budgeted) for name, seen in section.evidence.items()},
        "diagnostics": {name: seen.words for name, seen in section.evidence.items()},
        "notes": remarks(result, question),
    }


def _choice(choice: TrialChoice) -> dict[str, Any]:
    return {
        "chosen": choice.trial.values,
        "trials": choice.trials,
        "at_the_edge": choice.edges,
        "equal_trials": choice.equal_trials,
        "expected_best": choice.expected,
        "sensitivity": [{"values": values, **dataclasses.asdict(seen)} for values, seen in choice.curve],
        "runs": [str(run.path) for run in choice.runs],
    }


def _runs(report: ComparisonReport) -> list[dict[str, Any]]:
    columns = list(varied_keys(report.runs))
    numbers = {sweep.command: sweep.number for sweep in report.sweeps}
    return [_run(run, columns) | {"sweep": numbers.get(run.command)} for run in report.runs]


def _run(run: RunRecord, columns: Sequence[str]) -> dict[str, Any]:
    return row(run, columns) | {f"{at} {tag}": getattr(run, at).get(tag) for at in ("best", "last") for tag in _METRICS}


def _scores(section: Section) -> Iterator[dict[str, Any]]:
    for choice, score in zip(section.result.choices, section.result.scores, strict=True):
        interval = dataclasses.asdict(score.interval) if score.interval else {"n": 0}
        chosen = "; ".join(f"{key}={value}" for key, value in choice.trial.values.items())
        failed = dataclasses.asdict(score.failed) if score.failed else {}
        more = {f"failed_{key}": value for key, value in failed.items()}
        more |= {"training_loss": score.training_loss.mean if score.training_loss else None, "same_as": score.same_as}
        more |= {"not_done": score.failures, "trials": choice.trials, "chosen": chosen, "seconds": score.seconds}
        yield {"block": section.name, "strategy": score.name, **interval, **more}


def _differences(section: Section) -> Iterator[dict[str, Any]]:
    for difference in section.result.differences:
        flat = dataclasses.asdict(difference)
        narrow = flat.pop("equivalence")
        ends = {"equivalence_low": narrow["low"], "equivalence_high": narrow["high"]}
        yield {"block": section.name, **flat.pop("interval"), **flat, **ends}


def _curves(section: Section) -> Iterator[dict[str, Any]]:
    for name, seen in section.evidence.items():
        for tag, band in seen.bands.items():
            columns = (band.steps, band.mean, band.middle, band.low, band.high, band.n)
            for step, mean, middle, low, high, n in zip(*(column.tolist() for column in columns), strict=True):
                known = {"block": section.name, "strategy": name, "tag": tag, "step": step}
                yield {**known, "mean": mean, "middle": middle, "low": low, "high": high, "n": n}


def write_csv(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Writes the rows; the columns are the keys of the first one. Raises OutputFailed if it cannot."""
    rows = iter(rows)
    first = next(rows, None)
    with output_file(path) as file:
        text = io.TextIOWrapper(file, newline="", encoding="utf-8", errors="surrogateescape")
        if first is not None:
            writer = csv.writer(text)
            writer.writerow(map(_cell, first))
            writer.writerows([_cell(one.get(key, "")) for key in first] for one in chain([first], rows))
        text.detach()


def _cell(value: Any) -> Any:
    """Prefixes an apostrophe to text that a spreadsheet would take for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
