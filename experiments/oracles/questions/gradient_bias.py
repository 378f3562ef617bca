"""How wrong each estimator is, on binary networks of one to six layers."""

from __future__ import annotations

import math

import torch

from experiments.oracles import binary_network, deep_binary, figures
from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.contender_scores import ContenderScore, score_contender
from experiments.oracles.contenders import contenders
from experiments.oracles.intervals import Interval, mean_interval, together
from experiments.oracles.many_nets import (
    DEEP,
    REINMAX,
    SCORE,
    ST,
    agreement_of_orders,
    cosines,
    scale_growth,
    score_deep,
    score_shallow,
    six_estimators,
)  # fmt: skip
from experiments.oracles.score_text import cells
from experiments.oracles.scores import GradientScore
from experiments.oracles.setting import Setting
from experiments.oracles.verdicts import above, below, words
from surrogates.strategies.smooth import Smooth

DRAWS = 4000
WARMTHS = (0.5, 1.0)
SPREADS = (0.5, 1.0, 2.0)
FIRST, ADDED = range(100_000, 101_200, 100), range(140_000, 141_200, 100)  # seeds of nets
SEEDS = (*FIRST, *ADDED)
UNBIASED, RIGHT = 0.05, 0.95  # a bias that counts as none; a cosine that counts as right
HEAD = ("", "bias", "deviation", "cosine of the mean", "best scale", "cosine of one sample", "descent")

Scores = dict[str, list[GradientScore]]  # by estimator, one for each net


def answer() -> Answer:
    """24 nets of one layer, of six layers, and the soft forward on nets of other weights; two tables of one net."""
    many = {T: {name: score_shallow(arm, SEEDS) for name, arm in six_estimators(T).items()} for T in WARMTHS}
    ends = {depth: {name: score_deep(arm, SEEDS, depth) for name, arm in DEEP.items()} for depth in (1, 6)}
    soft = {spread: [score_deep(Smooth(), SEEDS, d, spread) for d in deep_binary.DEPTHS] for spread in SPREADS}
    shallow = _rows(binary_network.settings()[0], DRAWS)
    deep = [row for setting in deep_binary.settings() for row in _rows(setting, 1000)]
    last = [_cells(row) for row in deep if row.setting.endswith("6")]
    tables = [
        _many_table(many[1.0]),
        Table(f"One net with one layer of 8 units, {DRAWS} samples.", HEAD, [_cells(row) for row in shallow]),
        Table("First layer of one net with six layers, 1000 samples.", HEAD, last),
        _soft_table(soft),
    ]
    checks = [_check_unbiased(many[1.0]), _check_reinmax(many[1.0])]
    checks += [*(_check_reversal(T, scores) for T, scores in many.items()), *_check_depth(ends), _check_soft(soft)]
    remarks = (
        f"The {len(SEEDS)} nets have the seeds {FIRST[0]} to {FIRST[-1]} and {ADDED[0]} to {ADDED[-1]} in steps of 100."
    )
    return Answer(checks, tables, remarks, figures.overview([*shallow, *deep]))


def _check_unbiased(many: Scores) -> Check:
    square = mean_interval([s.bias**2 - s.error**2 for s in many[SCORE]])
    return Check(
        f"the score function has a bias below {UNBIASED:g}, which counts as none here",
        f"squared bias, by an unbiased estimate: {words(square, '.5f')}; the limit is {UNBIASED**2:g}",
        below([square], UNBIASED**2),
    )


def _check_reinmax(many: Scores) -> Check:
    gain = mean_interval([a.bias - 0.5 * b.bias for a, b in zip(many[REINMAX], many[ST], strict=True)])
    return Check(
        "ReinMax has less than half of straight-through's bias",
        f"ReinMax's bias minus half of straight-through's: {words(gain, '.3f')}",
        below([gain], 0),
    )


def _check_reversal(T: float, many: Scores) -> Check:
    orders = mean_interval([agreement_of_orders(net) for net in zip(*many.values(), strict=True)])
    return Check(
        f"with Gumbel-softmax at T = {T:g}, the order by one sample's cosine is nearly the reverse of that by bias: "
        "rank correlation below -0.5",
        f"rank correlation of the two orders of six estimators: {words(orders)}",
        below([orders], -0.5),
        f"The score function has the least bias and by far the smallest cosine. But at T = {T:g} Gumbel-softmax has no "
        "less bias than straight-through, and a smaller cosine: these two are not in reverse order.",
    )


def _check_depth(ends: dict[int, Scores]) -> list[Check]:
    level = together(len(DEEP))
    right = {name: mean_interval(cosines(scores), level=level) for name, scores in ends[6].items()}
    growth = {name: mean_interval(scale_growth(ends[1][name], ends[6][name]), level=level) for name in DEEP}
    factors = (f"{name} {2**g.mean:.2f} ({2**g.low:.2f} to {2**g.high:.2f})" for name, g in growth.items())
    return [
        Check(
            f"at depth 6 the directions are still right: cosine of the mean above {RIGHT:g}",
            ", ".join(f"{name} {words(cosine, '.3f')}" for name, cosine in right.items()),
            above(right.values(), RIGHT),
        ),
        Check(
            "with depth the gradients become too short: the best scale grows from 1 to 6 layers",
            "by the factor " + ", ".join(factors),
            above(growth.values(), 0),
        ),
    ]


def _check_soft(soft: dict[float, list[list[GradientScore]]]) -> Check:
    level = together(len(SPREADS))
    changes: dict[float, Interval] = {}
    for spread, row in soft.items():
        pairs = zip(cosines(row[0]), cosines(row[-1]), strict=True)
        changes[spread] = mean_interval([last - first for first, last in pairs], level=level)
    return Check(
        "the soft forward's cosine falls with depth, from 1 to 6 layers",
        "change, by the standard deviation of hidden weights: "
        + ", ".join(f"{words(change, '+.2f')} at {spread:g}" for spread, change in changes.items()),
        below(changes.values(), 0),
        "The result depends on the weights: the soft forward is wrong where units are far from linear. An enumeration "
        "written independently of this code gives the same result.",
    )


def _many_table(many: Scores) -> Table:
    rows = [
        (
            name,
            words(mean_interval([s.bias for s in scores]), ".3f"),
            words(mean_interval(cosines(scores)), ".3f"),
            words(mean_interval([s.sample_cosine for s in scores]), ".3f"),
        )
        for name, scores in many.items()
    ]
    title = (
        f"{len(SEEDS)} nets with one layer of 8 units, 1000 samples each, Gumbel-softmax at T = 1: means, intervals. "
        "The bias contains the sampling error of the mean, which is all of the score function's."
    )
    return Table(title, ("", "bias", "cosine of the mean", "cosine of one sample"), rows)


def _soft_table(soft: dict[float, list[list[GradientScore]]]) -> Table:
    rows = []
    for spread, row in soft.items():
        scales = [torch.tensor([s.scale or math.nan for s in scores]).median() for scores in row]
        means = [mean_interval(cosines(scores)) for scores in row]
        rows.append((f"{spread:g}", *(f"{words(c)}, {s:.2g}" for c, s in zip(means, scales, strict=True))))
    title = (
        f"Soft forward compared with the truth, first layer: mean cosine of {len(SEEDS)} nets with its interval, and "
        "median best scale, by the standard deviation of hidden weights."
    )
    return Table(title, ("", *(f"depth {depth}" for depth in deep_binary.DEPTHS)), rows)


def _rows(setting: Setting, draws: int) -> list[ContenderScore]:
    return [score_contender(c, setting, draws) for c in contenders(setting) if c.name in figures.SHOWN]


def _cells(row: ContenderScore) -> tuple[str, ...]:
    every = cells(row)
    return (figures.SHOWN[row.contender], every[1], every[2], every[3], every[5], every[4], every[7])
