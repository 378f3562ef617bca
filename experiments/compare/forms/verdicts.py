"""Puts the answer of a block, and its control by equal functions, into sentences."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.compare.forms.tables import amount, p_value, value, with_sign
from experiments.compare.statistics.intervals import FEWEST, ConfidenceInterval
from experiments.compare.statistics.results import Difference, Question, Result, Verdict


def sentence(result: Result, question: Question) -> str:
    """Answers which variant is best, and names the failed runs of those that the answer names."""
    verdict = result.verdict
    named = {*verdict.top, verdict.against.baseline if verdict.against else ""}
    shares = [(score.name, score.failed) for score in result.scores if score.name in named and score.failed]
    failed = [f"{share.failed} of {share.ended} runs of {name}" for name, share in shares if share.failed]
    after = f" {_join_names(failed)} failed; they rank lowest." if failed else ""
    return _answer(verdict, result, question) + after


def remarks(result: Result, question: Question) -> list[str]:
    """Returns all sentences that a reader of the tables must know."""
    return [*_controls(result, question), *result.notes]


def _controls(result: Result, question: Question) -> list[str]:
    """Sets the measured difference of every two equal functions beside the true one, which is 0."""
    return [
        f"A/A control: {found.name} and {found.baseline} are the same function, up to the choice at kinks and ties, so "
        f"their true difference is 0. Measured: {_difference_text(found, question)}{_position_of_zero(found.interval)}."
        for found in result.controls
    ]


def _position_of_zero(interval: ConfidenceInterval) -> str:
    if interval.missing:
        return ""
    holds = interval.low <= 0 <= interval.high
    return ", which holds 0" if holds else ", which excludes 0: a false claim, or ties decide"


def _answer(verdict: Verdict, result: Result, question: Question) -> str:
    found = verdict.against
    if verdict.kind == "alone":
        return _alone(verdict, result, question)
    if verdict.kind == "several":
        said = f"{_join_names(verdict.top)} are not separated"
        return f"{said}; {verdict.top[0]} is {_ahead(found, question)}." if found else f"{said}. {_NOT_EQUAL}"
    assert found is not None
    if verdict.kind == "winner":
        return _winner(verdict.top[0], found, question)
    if verdict.kind == "too few":
        return f"{_why_too_few(found)}. {verdict.top[0]} is ahead of {found.baseline}, which settles nothing."
    if verdict.kind == "equivalent":
        within = f"within ± {amount(question.margin or 0, question)}, which was stated beforehand"
        difference = _difference_text(found, question, 90, found.equivalence)
        return f"{_join_names(verdict.top)} are equivalent {within}: {difference}."
    return _unclear(found, question)


_NOT_EQUAL = "This does not show that they are equal."


def _alone(verdict: Verdict, result: Result, question: Question) -> str:
    means = [score.interval.mean for score in result.scores if score.name in verdict.top and score.interval]
    if not means:
        return "No finished run has a score, so nothing is compared."
    unit = " %" if question.metric.kind == "accuracy" else " nats"
    return f"Only {verdict.top[0]} has runs, with {value(means[0], question)}{unit}, so nothing is compared."


def _why_too_few(found: Difference) -> str:
    if found.failed:
        return "Runs failed, and the ranks of so few runs show nothing"
    if found.interval.n < FEWEST:
        return f"{found.interval.why_missing('pair').capitalize()}; {FEWEST} are needed"
    return found.interval.why_missing("pair").capitalize()


def _unclear(found: Difference, question: Question) -> str:
    if found.failed:
        return f"No difference shown between {found.name} and {found.baseline}: {_by_rank(found)}. {_NOT_EQUAL}"
    if question.margin is None:
        between = f"{found.name} and {found.baseline}"
        return f"No difference shown between {between}: {_difference_text(found, question)}. {_NOT_EQUAL}"
    said = f"Not settled: {found.name} compared with {found.baseline}, {_difference_text(found, question)}."
    if found.seeds_needed is None:
        return f"{said} More seeds cannot narrow the interval to ± {amount(question.half_width, question)}."
    return f"{said} About {found.seeds_needed} seeds would narrow it to ± {amount(question.half_width, question)}."


def _winner(best: str, found: Difference, question: Question) -> str:
    """Names the best, and says whether the whole interval lies below or above the stated margin."""
    ahead, margin = _ahead(found, question), question.margin
    if margin is None or found.failed:
        return f"{best} is best: {ahead}."
    matter = f"the {amount(margin, question)} that matter"
    ends = abs(found.interval.low), abs(found.interval.high)
    if max(ends) < margin:
        return f"{best} is {ahead}, less than {matter}."
    return f"{best} is best: {ahead}" + f", more than {matter}" * (min(ends) > margin) + "."


def _ahead(found: Difference, question: Question) -> str:
    """`1.2 points above B (95 % interval +0.4 to +2.0, 8 pairs of seeds)`."""
    if found.failed:
        return f"ahead of {found.baseline}, {_by_rank(found)}"
    word = "above" if found.interval.mean > 0 else "below"
    size = amount(abs(found.interval.mean), question)
    return f"{size} {word} {found.baseline} ({_ends(found, question, 95, found.interval)})"


def _by_rank(found: Difference) -> str:
    return f"by rank in {100 * found.better:.0f} % of all comparisons of two runs (p {p_value(found.p_ranks)})"


def _difference_text(
    found: Difference, question: Question, level: int = 95, interval: ConfidenceInterval | None = None
) -> str:
    """`+1.2 points (95 % interval +0.4 to +2.0, 8 pairs of seeds)`."""
    interval = interval or found.interval
    unit = "points" if question.metric.kind == "accuracy" else "nats"
    return f"{with_sign(interval.mean, question)} {unit} ({_ends(found, question, level, interval)})"


def _ends(found: Difference, question: Question, level: int, interval: ConfidenceInterval) -> str:
    noun = "seeds each" if found.unpaired_because else "pairs of seeds"
    if interval.missing:
        return interval.why_missing("seed" if found.unpaired_because else "pair")
    low, high = (with_sign(end, question) for end in (interval.low, interval.high))
    return f"{level} % interval {low} to {high}, {interval.n} {noun}"


def _join_names(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
