"""Makes the tables of a report as rows of text, for all forms."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.compare.report import Section
from experiments.compare.statistics.intervals import ConfidenceInterval
from experiments.compare.statistics.metric import FailedShare
from experiments.compare.statistics.results import Difference, Question
from experiments.compare.statistics.tuning import TrialChoice

NONE = "-"


@dataclass(frozen=True)
class TextTable:
    """A heading, the names of the columns, the rows, and a note that explains columns."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def unit(question: Question) -> str:
    """Returns the unit of the metric."""
    return "%" if question.metric.kind == "accuracy" else "nats"


def value(number: float, question: Question) -> str:
    """Formats a score: accuracy in percent, loss in nats."""
    return f"{100 * number:.1f}" if question.metric.kind == "accuracy" else f"{number:.4g}"


def with_sign(number: float, question: Question) -> str:
    """Formats a difference of scores, with its sign: points or nats."""
    if question.metric.kind == "accuracy":
        return f"{100 * number:+.1f}".replace("-0.0", "0.0").replace("+0.0", "0.0")
    return f"{number:+.3g}"


def amount(number: float, question: Question) -> str:
    """Formats the size of a difference with its unit: `1.2 points`."""
    return f"{value(number, question)} {'points' if question.metric.kind == 'accuracy' else 'nats'}"


def with_interval(interval: ConfidenceInterval | None, question: Question, form: Any = value) -> str:
    """Formats a mean and its interval: `93.1 [92.0, 94.2]`."""
    if interval is None or math.isnan(interval.mean):
        return NONE
    mean = form(interval.mean, question)
    if interval.missing:
        return f"{mean} [no interval]"
    return f"{mean} [{form(interval.low, question)}, {form(interval.high, question)}]"


def of(section: Section, question: Question) -> list[TextTable]:
    """Returns all tables of a block that have data."""
    found = (scores(section, question), differences(section, question), tuning(section), budgets(section))
    return [table for table in found if table is not None]


def scores(section: Section, question: Question) -> TextTable:
    """Tabulates every variant's score and training loss with n, the share of failed runs and the chosen values."""
    scored = f"{question.metric.tag} {unit(question)} [95 %]"
    header = ["strategy", "n", scored, section.result.training_tag, "failed % [95 %]", "chosen", "not done"]
    rows = []
    for choice, score in zip(section.result.choices, section.result.scores, strict=True):
        name = f"{score.name} (= {score.same_as})" if score.same_as else score.name
        loss = NONE if score.training_loss is None else f"{score.training_loss.mean:.3g}"
        n = str(score.interval.n) if score.interval else "0"
        numbers = [n, with_interval(score.interval, question), loss, _share(score.failed)]
        rows.append([name, *numbers, chosen_values(choice) or NONE, score.failures or NONE])
    absent = section.result.block.absent.items()
    rows += [[name, "n/a", NONE, NONE, NONE, NONE, why.partition(" (")[0]] for name, why in absent]  # without the file
    note = (
        f"n: finished runs; the score is their mean. {section.result.training_tag}: at the last step. failed: share "
        "of diverged and crashed runs, Clopper-Pearson. Each interval of this table holds for one strategy alone."
    )
    return TextTable("scores", header, rows, note)


def _share(failed: FailedShare | None) -> str:
    if failed is None:
        return NONE
    return f"{100 * failed.failed / failed.ended:.0f} [{100 * failed.low:.0f}, {100 * failed.high:.0f}]"


def chosen_values(choice: TrialChoice, keys: Container[str] | None = None) -> str:
    """Formats a variant's chosen values of `keys`, or of all: `lr 0.1, temperature 1`; empty if there are none."""
    values = choice.trial.values.items()
    return ", ".join(f"{short(key)} {_plain(value)}" for key, value in values if keys is None or key in keys)


def short(key: str) -> str:
    """Returns the last part of a dotted key."""
    return key.rpartition(".")[2]


def _plain(number: Any) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)


def differences(section: Section, question: Question) -> TextTable | None:
    """Tabulates every variant's difference to the baseline; None if there is none."""
    found = section.result.differences
    if not found:
        return None
    width = f"±{value(question.half_width, question)}"
    points = "points" if question.metric.kind == "accuracy" else "nats"
    baseline = found[0].baseline
    header = [f"compared with {baseline}", f"{points} [95 %]", "p", "P(better)", "p ranks", f"seeds for {width}"]
    note = (
        f"{section.result.family} p: Student's t. P(better): the chance that a run beats a run of {baseline}; failed "
        f"runs rank lowest. p ranks: permutation test of the ranks. seeds for {width}: how many seeds would narrow the "
        f"interval to {width}."
    )
    if question.margin is not None:
        header.append("p equivalent")
        note += f" p equivalent: two one-sided tests of the margin, ± {amount(question.margin, question)}."
    header.append("shown")
    return TextTable("differences", header, [_difference(d, question) for d in found], note)


def _difference(found: Difference, question: Question) -> list[str]:
    mark = " (unpaired)" if found.unpaired_because else ""
    equivalent = [] if question.margin is None else [p_value(found.p_equivalent)]
    return [
        found.name + mark,
        with_interval(found.interval, question, with_sign),
        p_value(found.p),
        f"{found.better:.2f}",
        p_value(found.p_ranks),
        NONE if found.seeds_needed is None else str(found.seeds_needed),
        *equivalent,
        NONE if found.verdict == "none" else found.verdict,
    ]


def p_value(p: float | None) -> str:
    """Formats a p value."""
    return NONE if p is None else "<.0001" if p < 1e-4 else f"{p:.4f}"


def budgets(section: Section) -> TextTable:
    """Tabulates validation accuracy at equal steps and at equal time."""
    given, question = section.budgets, Question()
    at_steps = "at equal steps %" if given.steps is None else f"at {given.steps} steps %"
    header = ["strategy", at_steps]
    if given.seconds:
        header += [f"at {given.seconds:.3g} s %", "mean seconds a run"]
    rows = []
    for score in section.result.scores:
        seen = section.evidence[score.name].budgeted
        seconds = NONE if score.seconds is None else f"{score.seconds:.3g}"
        row = [score.name, with_interval(seen.at_steps, question), with_interval(seen.at_seconds, question), seconds]
        rows.append(row[: len(header)])
    title = "best validation accuracy at equal steps"
    return TextTable(title + " and at equal wall-clock time" * bool(given.seconds), header, rows)


def tuning(section: Section) -> TextTable | None:
    """Tabulates the trials of every variant: tried, chosen, and the expected best of an equal number."""
    choices, question = section.result.choices, Question()
    if all(choice.trials == 1 for choice in choices):
        return None
    equal = choices[0].equal_trials
    header = ["strategy", "trials", "chosen", "at the edge", f"best of {equal} %", "validation accuracy % by setting"]
    rows = []
    for choice in choices:
        keys = [key for key in choice.trial.values if len({values.get(key) for values, _ in choice.curve}) > 1]
        curve = "; ".join(f"{_values(values, keys)}: {value(seen.mean, question)}" for values, seen in choice.curve)
        expected = NONE if choice.expected is None else value(choice.expected, question)
        edges = ", ".join(short(key) for key in choice.edges) or "no"
        rows.append([choice.variant.name, str(choice.trials), chosen_values(choice) or NONE, edges, expected, curve])
    seeds = section.result.seeds.choosing
    named = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    note = f"best of {equal}: the average of the best of {equal} trials, drawn at random from the strategy's trials."
    return TextTable(f"tuning, by validation accuracy on {named}", header, rows, note)


def _values(values: dict[str, Any], keys: Sequence[str]) -> str:
    return ", ".join(_plain(values[key]) for key in keys if key in values)
