"""Sentences that warn the reader about the numbers of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.compare.reading.run_record import RunRecord
from experiments.compare.statistics.blocks import RunBlock
from experiments.compare.statistics.family import Family
from experiments.compare.statistics.intervals import ALPHA
from experiments.compare.statistics.permutation import seeds_to_reach
from experiments.compare.statistics.results import BEST, Difference, VariantScore
from experiments.compare.statistics.tuning import Seeds, TrialChoice


def notes(
    block: RunBlock,
    seeds: Seeds,
    choices: Sequence[TrialChoice],
    scores: Sequence[VariantScore],
    differences: Sequence[Difference],
    family: Family,
    baseline: str,
) -> list[str]:
    """Writes the sentences; `baseline` is the requested one."""
    return [
        *_tuning(seeds, choices),
        *_runs(choices),
        *_settings(block, choices),
        *_baseline(differences, baseline, any(choice.validation is not None for choice in choices)),
        *_tables(choices),
        *_pairs(differences),
        *_intervals(scores, differences),
        *_ranks(differences, family),
    ]


def _tuning(seeds: Seeds, choices: Sequence[TrialChoice]) -> Iterator[str]:
    if len({choice.trials for choice in choices}) > 1:
        counts = ", ".join(f"{choice.variant.name} {choice.trials}" for choice in choices)
        known = [(choice.variant.name, choice.expected) for choice in choices if choice.expected is not None]
        equal = ", ".join(f"{name} {100 * expected:.1f} %" for name, expected in known)
        said = (
            f"; average validation accuracy of the best of {choices[0].equal_trials} trials: {equal}" if known else ""
        )
        yield f"UNEQUAL number of trials: {counts}{said}"
    if seeds.choosing:
        yield f"tuned values were {seeds.why}"
    for choice in choices:
        for key in choice.edges:
            yield f"{choice.variant.name}: best {key} = {choice.trial.values[key]} lies at the EDGE of the values tried"


def _runs(choices: Sequence[TrialChoice]) -> Iterator[str]:
    for choice in choices:
        if not choice.runs:
            yield f"{choice.variant.name}: the chosen trial has no run on the reported seeds"
    stacked = ", ".join(choice.variant.name for choice in choices if any(run.shares_time for run in choice.runs))
    if stacked:
        yield f"no wall-clock time for {stacked}: a stack's time cannot be attributed to a single run"


def _settings(block: RunBlock, choices: Sequence[TrialChoice]) -> Iterator[str]:
    rates = {choice.variant.name: choice.trial.values.get("optimizer.lr") for choice in choices}
    unknown = [choice.variant.name for choice in choices if any(_lacks_rate(run) for run in choice.runs)]
    if len(choices) > 1 and all(choice.trials == 1 for choice in choices):
        if unknown:
            yield f"the learning rate of {', '.join(unknown)} is unknown: the table has no column optimizer.lr"
        elif len(set(rates.values())) > 1:
            named = ", ".join(f"{name} {rate}" for name, rate in rates.items())
            yield f"learning rates differ and were not chosen here: {named}"
        else:
            yield "every strategy used the same learning rate; sweep optimizer.lr to tune each separately"
    for key, values in block.differing.items():
        yield f"{key} differs between strategies: " + "; ".join(f"{name} {value}" for name, value in values.items())


def _lacks_rate(run: RunRecord) -> bool:
    return not run.has_folder and "optimizer.lr" not in run.config


def _tables(choices: Sequence[TrialChoice]) -> Iterator[str]:
    named = [choice.variant.name for choice in choices if any(not run.has_folder for run in choice.runs)]
    if named:
        unknown = "versions, machine, data and outcomes by test sample are unknown"
        yield f"{', '.join(named)}: runs of a table, whose {unknown}; equal seeds alone make pairs"


def _baseline(differences: Sequence[Difference], asked: str, chosen: bool) -> Iterator[str]:
    if not differences:
        return
    used = differences[0].baseline
    if asked == BEST and chosen:
        yield f"the baseline {used} is the best by validation accuracy on the choosing seeds"
    elif asked == BEST:
        yield f"no seed chose, so none is known to be best beforehand; the baseline is {used}"
    elif asked not in (used, used.partition(" ")[0]):
        yield f"no run of this block has the strategy {asked}; the baseline is {used}"


def _pairs(differences: Sequence[Difference]) -> Iterator[str]:
    for found in differences:
        if found.unpaired_because:
            yield f"{found.name} compared with {found.baseline} is UNPAIRED: {found.unpaired_because}"
    beside: dict[str, list[str]] = {}
    for found in differences:
        for sentence in found.circumstances:
            beside.setdefault(sentence, []).append(found.name)
    for sentence, names in beside.items():
        yield f"{sentence}; the runs stay pairs: {', '.join(names)} with {differences[0].baseline}"


def _intervals(scores: Sequence[VariantScore], differences: Sequence[Difference]) -> Iterator[str]:
    """Says what the intervals cover, and why some are missing."""
    missing: dict[str, list[str]] = {}
    for score in scores:
        if score.interval is not None and score.interval.missing:
            missing.setdefault(score.interval.why_missing("run"), []).append(score.name)
    for found in differences:
        if found.interval.missing:
            missing.setdefault(found.interval.why_missing("pair"), []).append(f"{found.name} - {found.baseline}")
    for why, names in missing.items():
        yield f"{', '.join(names)}: {why}"
    without = [found.name for found in differences if found.samples is None and not found.interval.missing]
    counts = sorted({found.samples for found in differences if found.samples is not None})
    if counts:
        named = " or ".join(f"{count:,}" for count in counts)
        yield f"intervals cover training variation and the choice of the {named} test samples"
    if without:
        named = f" of {', '.join(without)}" * bool(counts)
        yield f"the intervals{named} cover training variation only, not the choice of the test samples"


def _ranks(differences: Sequence[Difference], family: Family) -> Iterator[str]:
    for found in differences:
        if not found.failed:
            continue
        said = f"{found.name} compared with {found.baseline}: {found.failed} runs failed, so the ranks decide"
        if found.smallest_p_ranks > ALPHA:
            needed = seeds_to_reach(ALPHA, max(1, family.pairs))
            said += f"; these seeds cannot reach p = {ALPHA:.2g}, at least {needed} pairs can"
        yield said
