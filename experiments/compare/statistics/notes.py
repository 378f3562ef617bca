"""Sentences that warn the reader about the numbers of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.compare.statistics.blocks import RunBlock
from experiments.compare.statistics.permutation import seeds_to_reach
from experiments.compare.statistics.results import Difference
from experiments.compare.statistics.tuning import Seeds, TrialChoice

ALPHA = 0.05


def notes(
    block: RunBlock,
    seeds: Seeds,
    choices: Sequence[TrialChoice],
    differences: Sequence[Difference],
    baseline: str | None,
) -> list[str]:
    """Writes the sentences; `baseline` is the requested one, None for the best."""
    return [
        *_tuning(seeds, choices),
        *_runs(choices),
        *_settings(block, choices),
        *_baseline(differences, baseline),
        *_pairs(differences),
        *_out_of_reach(differences),
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
        if any(run.failed and run.classes is None for run in choice.runs):
            yield f"{choice.variant.name}: a FAILED run is left out, because its number of classes is unknown"
    stacked = ", ".join(choice.variant.name for choice in choices if any(run.shares_time for run in choice.runs))
    if stacked:
        yield f"no wall-clock time for {stacked}: a stack's time cannot be attributed to a single run"


def _settings(block: RunBlock, choices: Sequence[TrialChoice]) -> Iterator[str]:
    rates = {choice.variant.name: choice.trial.values.get("optimizer.lr") for choice in choices}
    if len(choices) > 1 and all(choice.trials == 1 for choice in choices):
        if len(set(rates.values())) > 1:
            named = ", ".join(f"{name} {rate}" for name, rate in rates.items())
            yield f"learning rates differ and were not chosen here: {named}"
        else:
            yield "every strategy used the same learning rate; sweep optimizer.lr to tune each separately"
    for key, values in block.differing.items():
        yield f"{key} differs between strategies: " + "; ".join(f"{name} {value}" for name, value in values.items())


def _baseline(differences: Sequence[Difference], asked: str | None) -> Iterator[str]:
    used = differences[0].baseline if differences else asked
    if asked and used and asked not in (used, used.partition(" ")[0]):
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


def _out_of_reach(differences: Sequence[Difference]) -> Iterator[str]:
    unreachable = [d for d in differences if len(differences) * d.smallest_p > ALPHA]
    if unreachable:
        fewest = min(d.interval.n for d in unreachable)
        smallest = max(d.smallest_p for d in unreachable)
        count = f" times {len(differences)} comparisons" if len(differences) > 1 else ""
        yield (
            f"{fewest} seed{'s' * (fewest > 1)} cannot reach p = {ALPHA}: the smallest p of a permutation test is "
            f"{smallest:.3g}{count}; {seeds_to_reach(ALPHA, len(differences))} pairs of seeds can"
        )
