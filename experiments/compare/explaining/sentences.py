"""Sentences about the diagnostics of a variant's runs; docs/compare.md lists the thresholds too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from statistics import fmean, median

from experiments.compare.explaining.symptoms import Symptoms

DEAD, SATURATED, PEAK, GROWTH, GAP, FLIPS = 0.5, 0.5, 100.0, 10.0, 0.02, 0.05
_NAMED = 4  # names that are written out


def sentences(runs: Sequence[Symptoms], deciding: Collection[str] | None) -> list[str]:
    """Writes one sentence a finding, the gravest first, and a single one if there is no finding. Means are over runs.

    `deciding`: the layers whose outputs move in jumps only; None if the runs do not record them.
    """
    if not runs:
        return ["no run on the reported seeds"]
    found = [*_gradients(runs), *_norms(runs), *_decisions(runs, deciding), *_numbers(runs)]
    if not found and not any(run.logged for run in runs):
        return ["no logged step"]
    return found or ["no problem found: gradients reach every layer, no saturation, no exploding norm, no gap"]


def _gradients(runs: Sequence[Symptoms]) -> Iterator[str]:
    dead = _layers(runs, lambda run: run.dead, lambda share: share > DEAD)
    if dead:
        yield f"dead upstream gradient: exactly 0 below {_shares(dead)} of the logged steps"
    zero = _layers(runs, lambda run: run.zero, lambda share: share > DEAD)
    zero = {layer: share for layer, share in zero.items() if layer not in dead}
    if zero:
        yield f"most inputs get gradient 0: {_shares(zero)} of the inputs {_when(runs)}"
    saturated = _layers(runs, lambda run: run.saturated, lambda share: share > SATURATED)
    if saturated:
        yield f"saturation: {_shares(saturated)} of the inputs lie outside the op's range {_when(runs)}"
    names = list(dict.fromkeys(name for run in runs for name in run.never_trained))
    if names:
        count = sum(bool(run.never_trained) for run in runs)
        yield f"never trained in {count} of {len(runs)} runs: {_names(names)}"


def _norms(runs: Sequence[Symptoms]) -> Iterator[str]:
    peaks = [run.peak for run in runs if run.peak is not None and run.peak > PEAK]
    if peaks:
        yield f"exploding gradient norm in {len(peaks)} of {len(runs)} runs: up to {max(peaks):.3g} times its median"
    growths = [run.growth for run in runs if run.growth is not None]
    if growths and median(growths) > GROWTH:
        yield f"the gradient norm {_when(runs)} is {median(growths):.3g} times that at the start"


def _decisions(runs: Sequence[Symptoms], deciding: Collection[str] | None) -> Iterator[str]:
    gaps = [run.gap for run in runs if run.gap is not None]
    if gaps and abs(fmean(gaps)) > GAP:
        yield f"soft-to-hard gap {_when(runs)}: {100 * fmean(gaps):+.1f} points of validation accuracy (soft - hard)"
    moved = _layers(runs, lambda run: run.flips, lambda share: share > FLIPS)
    flips = {layer: share for layer, share in moved.items() if deciding is not None and layer in deciding}
    if flips:
        yield f"decisions still change: {_shares(flips)} of the hard outputs flipped between the last two evaluations"
    if moved and deciding is None:
        unknown = "these runs do not record whether the outputs are decisions"
        yield f"outputs still change: {_shares(moved)} between the last two evaluations ({unknown})"


def _numbers(runs: Sequence[Symptoms]) -> Iterator[str]:
    bad, skipped = sum(run.non_finite for run in runs), sum(run.skipped for run in runs)
    if bad:
        count = sum(run.non_finite > 0 for run in runs)
        yield f"not finite: {bad} logged steps in {count} of {len(runs)} runs"
    if skipped:
        count = sum(run.skipped > 0 for run in runs)
        yield f"skipped because of non-finite gradients: {skipped} optimizer steps in {count} of {len(runs)} runs"


def _when(runs: Sequence[Symptoms]) -> str:
    """Says when the last values were logged."""
    count = sum(run.unfinished for run in runs)
    return f"so far ({count} of {len(runs)} runs unfinished)" if count else "at the end of training"


def _layers(
    runs: Sequence[Symptoms], get: Callable[[Symptoms], dict[str, float]], notable: Callable[[float], bool]
) -> dict[str, float]:
    """Returns the layers whose mean over the runs is notable."""
    layers = dict.fromkeys(layer for run in runs for layer in get(run))
    means = {layer: fmean(get(run)[layer] for run in runs if layer in get(run)) for layer in layers}
    return {layer: mean for layer, mean in means.items() if notable(mean)}


def _shares(layers: dict[str, float]) -> str:
    return _names([f"{layer} at {100 * share:.0f} %" for layer, share in layers.items()])


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
