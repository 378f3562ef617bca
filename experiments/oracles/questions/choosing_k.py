"""Straight-through, projection or greed for choosing k things: sparse recovery, and the law of the top k."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from experiments.oracles import selection
from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.contender_scores import score_contender
from experiments.oracles.contenders import contenders
from experiments.oracles.intervals import Interval, mean_interval, share_difference_interval, share_interval, together
from experiments.oracles.score_text import cells
from experiments.oracles.sparse_recovery import Problems, blurred_problems, found_exactly, gaussian
from experiments.oracles.support_search import METHODS
from experiments.oracles.verdicts import above, words
from experiments.plotting import COLOURS, MARKERS, style

STEPS, TRIALS = 300, 100
MARGIN = 0.05
SIZES: dict[str, tuple[Callable[..., Problems], tuple[int, ...]]] = {
    "normal": (gaussian, (10, 14, 18)),
    "blurred": (blurred_problems, (2, 3, 4, 5, 6)),
}
ST = "straight-through"
PROJECTIONS = ("IHT", "normalised IHT", "HTP", "normalised HTP")

Trials = dict[str, tuple[Tensor, Tensor]]  # by method, (trials,) each: was the support found, and supports visited


def answer() -> Answer:
    """Exact recovery over the number planted, and every strategy on the top two of five under Gumbel noise."""
    found = {name: {k: _recover(make(k, TRIALS)) for k in sizes} for name, (make, sizes) in SIZES.items()}
    shares = {name: {k: _shares(trials) for k, trials in by_k.items()} for name, by_k in found.items()}
    checks = [check for name, by_k in found.items() for check in _check_leads(name, by_k)]
    tables = [_table(name, by_k) for name, by_k in shares.items()]
    remarks = (
        f"{TRIALS} instances for each k: 64 measurements, 128 entries, {STEPS} steps, planted values of size 1 to 2 "
        "with random signs, no noise. Each instance of the normal matrix has its own matrix (seeds 90 to 93). The "
        "blurred matrix is one matrix (seeds 95 to 98). Every method keeps the visited support with the smallest "
        "residual. Straight-through starts from 0, where its step size has no effect. Training with sorting and top-k "
        "is not covered here."
    )
    return Answer([*checks, _check_visits(found)], [*tables, _strategies()], remarks, _figure(shares))


def _recover(problems: Problems) -> Trials:
    results = {name: method(problems, STEPS) for name, method in METHODS.items()}
    return {name: (found_exactly(problems, support), seen) for name, (support, seen) in results.items()}


def _shares(trials: Trials) -> dict[str, Interval]:
    return {name: share_interval(int(hits.sum()), len(hits)) for name, (hits, _) in trials.items()}


def _check_leads(matrix: str, found: dict[int, Trials]) -> list[Check]:
    others = [(k, name) for k in found for name in METHODS if name != ST]
    level = together(len(others))
    leads = {
        (k, name): share_difference_interval(found[k][ST][0].tolist(), found[k][name][0].tolist(), level)
        for k, name in others
    }
    k, name = min(leads, key=lambda key: leads[key].mean)
    least = f"smallest lead: {words(leads[k, name], '+.3f')}, over {name} at k = {k}"
    more = sum(lead.low > 0 for lead in leads.values())
    fewer = sum(lead.high < 0 for lead in leads.values())
    return [
        Check(
            f"{matrix} matrix: straight-through finds more supports than every other method, at every k",
            f"more in {more}, fewer in {fewer} of {len(leads)} comparisons; {least}",
            above(leads.values(), 0),
        ),
        Check(
            f"{matrix} matrix: at every k no other method's share is larger by {100 * MARGIN:.0f} points or more",
            least,
            above(leads.values(), -MARGIN),
        ),
    ]


def _check_visits(found: dict[str, dict[int, Trials]]) -> Check:
    every = [trials for by_k in found.values() for trials in by_k.values()]
    level = together(len(PROJECTIONS))
    means = {
        name: mean_interval([float(x) for trials in every for x in trials[ST][1] - trials[name][1]], level=level)
        for name in PROJECTIONS
    }
    return Check(
        "straight-through visits more supports than each projection method",
        "more by " + ", ".join(f"{words(mean, '.0f')} than {name}" for name, mean in means.items()),
        above(means.values(), 0),
    )


def _table(matrix: str, shares: dict[int, dict[str, Interval]]) -> Table:
    rows = [(name, *(words(by_method[name]) for by_method in shares.values())) for name in METHODS]
    kind = {"normal": "independent entries", "blurred": "neighbouring columns nearly parallel"}[matrix]
    title = f"Share of supports found exactly, with its interval: {matrix} matrix, {kind}."
    return Table(title, ("k", *map(str, shares)), rows)


def _strategies() -> Table:
    setting = selection.settings()[-1]
    rows = sorted((score_contender(c, setting) for c in contenders(setting)), key=lambda row: row.score.bias)
    return Table(
        f"{setting.name}, one setting, exact gradient by enumeration of the Plackett-Luce law, {setting.draws} samples,"
        " smallest bias first.",
        ("", "bias", "deviation", "cosine of the mean", "best scale"),
        [(row.contender, *(cells(row)[i] for i in (1, 2, 3, 5))) for row in rows],
    )


def _figure(shares: dict[str, dict[int, dict[str, Interval]]]) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(9, 3.6))
        for axes, (matrix, by_k) in zip(figure.subplots(1, 2), shares.items(), strict=True):
            for name, colour, marker in zip(METHODS, COLOURS, (*MARKERS, "*"), strict=True):
                ends = [by_method[name] for by_method in by_k.values()]
                bars = [[i.mean - i.low for i in ends], [i.high - i.mean for i in ends]]
                axes.errorbar(
                    list(by_k), [i.mean for i in ends], bars, color=colour, marker=marker, label=name, linewidth=1.2,
                    elinewidth=0.7, markersize=4,
                )  # fmt: skip
            axes.set(
                title=f"share of supports found, {matrix} matrix", xlabel="k", ylim=(-0.03, 1.03), xticks=list(by_k)
            )
        figure.subplots_adjust(left=0.05, right=0.99, top=0.9, bottom=0.28)
        figure.legend(*axes.get_legend_handles_labels(), loc="lower center", ncols=4)
    return figure
