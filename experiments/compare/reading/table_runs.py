"""Makes runs of the lines of a table, for runs that another program made; docs/compare.md lists the columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from experiments.compare.reading.run_record import CRASHED, DIVERGED, UNEXPLAINED, UNFINISHED, RunRecord
from experiments.compare.reading.table_lines import TableLine, WrongTable, read_lines
from experiments.config.settings import GROUPS

NEEDED = ("strategy", "seed")
OUTCOMES = ("done", DIVERGED, CRASHED, UNFINISHED, "n/a")
# Columns that are no settings; compare's own runs.csv has the last three.
KNOWN = (*GROUPS, "seed", "step", "outcome", "failed", "seconds", "reason", "run", "sweep")
VALIDATION = "accuracy/val"  # whose largest value makes a step the best

Values = dict[str, float]  # by tag


class _Identity(NamedTuple):
    """What tells the runs of a table apart: the options, the seed, and the settings as pairs of name and value."""

    options: tuple[str, ...]
    seed: int
    settings: tuple[tuple[str, Any], ...]


def read_table(file: Path) -> list[RunRecord]:
    """Reads the runs of a `.csv` or `.jsonl` file: one line a run, or with a column `step` one line a logged step.

    Raises WrongTable, with line and column, for the first mistake in the file.
    """
    columns, lines = read_lines(file)
    _check_columns(file, columns)
    settings = [name for name in columns if name not in KNOWN and "/" not in name]
    runs: dict[_Identity, dict[int, TableLine]] = {}
    for line in lines:
        identity = _identity(line, settings)
        own = runs.setdefault(identity, {})
        step = line.whole("step") if "step" in columns else 0
        if step in own:
            said = "seed, settings and step" if "step" in columns else "seed and settings"
            raise line.wrong(f"it has the strategy, {said} of line {own[step].number}; a run has its own")
        own[step] = line
    _refuse_names(file, settings, list(runs))
    return [_run(identity, dict(sorted(own.items())), "step" in columns) for identity, own in runs.items()]


def _check_columns(file: Path, columns: Sequence[str]) -> None:
    listed = f"the columns are: {', '.join(columns)}"
    for name in NEEDED:
        if name not in columns:
            near = get_close_matches(name, columns, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise WrongTable(file, f": there is no column {name}{hint}; {listed}")
    if not any("/" in name for name in columns):
        examples = "accuracy/test, accuracy/val, loss/test or loss/val"
        raise WrongTable(file, f": no column is a metric; name one {examples}; {listed}")


def _refuse_names(file: Path, settings: Sequence[str], runs: Sequence[_Identity]) -> None:
    """Raises WrongTable for a column that names runs: as a setting it would leave no two runs to compare."""
    if len(runs) < 3 or len({run.seed for run in runs}) == 1:
        return
    for name in settings:
        if len({dict(run.settings).get(name) for run in runs}) == len(runs):
            raise WrongTable(file, f", column {name}: no two runs share a value, so none can be compared; leave it out")


def _identity(line: TableLine, settings: Sequence[str]) -> _Identity:
    line.require_text("strategy")
    options = {group: line.text(group) for group in GROUPS}
    options["component"] = options["component"] or line.file.stem
    values = {name: value for name in settings if (value := line.setting(name)) is not None}
    return _Identity(tuple(options.values()), line.whole("seed"), tuple(values.items()))


def _run(identity: _Identity, lines: Mapping[int, TableLine], stepped: bool) -> RunRecord:
    """Makes a run of its lines, in the order of their steps; a table without steps has one line a run."""
    logged = {step: _values(line, "last") for step, line in lines.items()}
    scores = {step: _values(line, "best") for step, line in lines.items()}
    final = lines[max(lines)]
    last = {tag: value for values in logged.values() for tag, value in values.items()}
    validated = {step: own[VALIDATION] for step, own in scores.items() if math.isfinite(own.get(VALIDATION, math.nan))}
    best = max(validated, key=lambda step: validated[step], default=max(lines))
    outcome, reason = _outcome(final, last | scores[best])
    path = Path(f"{final.file}:{next(iter(lines.values())).number}")
    return RunRecord(
        path=path,
        options=dict(zip(GROUPS, identity.options, strict=True)),
        config=dict(identity.settings),
        seed=identity.seed,
        config_hash=str(path),
        outcome=outcome,
        reason=reason,
        started="",
        seconds=final.decimal("seconds"),
        conditions={},
        environment={},
        command="",
        best={**last, **scores[best], "step": best} if stepped else scores[best],
        last=last,
        never_trained=(),
        skipped_steps=0,
        exact=None,
        parameters=None,
        deciding_layers=None,
        logged=logged if stepped else {},
    )


def _values(line: TableLine, at: str) -> Values:
    """Reads the metrics of a line: the columns `TAG`, and of `best TAG` and `last TAG` those that `at` names."""
    found = {}
    for column in line.cells:
        first, _, rest = column.partition(" ")
        tag = rest if first == at else column
        if "/" in tag and not (tag == column and first in ("best", "last")):
            found[tag] = line.decimal(column)
            _check_share(line, column, tag, found[tag])
    return {tag: value for tag, value in found.items() if value is not None}


def _check_share(line: TableLine, column: str, tag: str, value: float | None) -> None:
    if value is not None and tag.startswith("accuracy/") and math.isfinite(value) and not 0 <= value <= 1:
        raise line.wrong(f"{value:g} is no share between 0 and 1; divide percentages by 100", column)


def _outcome(line: TableLine, values: Values) -> tuple[str, str]:
    """Returns how the run ended, and why. A score that is not finite is a run that diverged."""
    said, reason = line.text("outcome") or "done", line.text("reason")
    if said not in OUTCOMES:
        raise line.wrong(f"{said!r} must be one of {', '.join(OUTCOMES)}", "outcome")
    if line.flag("failed"):
        return UNEXPLAINED, reason or "its table gives no reason"
    if said != "done":
        return said, reason or "its table gives no reason"
    bad = [tag for tag, value in values.items() if tag.startswith(("accuracy/", "loss/")) and not math.isfinite(value)]
    if bad:
        return DIVERGED, f"{bad[0]} is {values[bad[0]]}"
    if not values:
        raise line.wrong("no metric has a value; write NaN if the run diverged, or fill the column outcome")
    return "done", reason
