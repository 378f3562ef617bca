"""How wrong each estimator is, on binary networks of one to six layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from experiments.oracles import binary_network, deep_binary, figures
from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.contender_scores import ContenderScore, score_contender
from experiments.oracles.contenders import Contender, contenders
from experiments.oracles.sampling import sample
from experiments.oracles.score_text import cells
from experiments.oracles.scores import score
from experiments.oracles.setting import Setting, gradient, normal
from surrogates.ops.heaviside import Heaviside
from surrogates.strategies.gumbel import Gumbel
from surrogates.strategies.reinmax import ReinMax
from surrogates.strategies.sampled import Sampled
from surrogates.strategies.smooth import Smooth

DRAWS = 4000
WARMTHS = (0.5, 1.0)
SPREADS, SEEDS = (0.5, 1.0, 2.0), range(1000, 1012)


def answer() -> Answer:
    """The table of one layer, the curves over depth, and the soft forward on other nets."""
    shallow = _rows(binary_network.settings()[0], DRAWS)
    deep = [row for setting in deep_binary.settings() for row in _rows(setting, 1000)]
    cosines = {spread: [_soft(depth, spread) for depth in deep_binary.DEPTHS] for spread in SPREADS}
    head = ("", "bias", "deviation", "cosine of the mean", "best scale", "cosine of one sample", "descent")
    tables = [
        Table(f"One layer of 8 units, {DRAWS} samples.", head, [_cells(row) for row in shallow]),
        Table("First layer at depth 6, 1000 samples.", head, [_cells(r) for r in deep if r.setting.endswith("6")]),
        Table(
            f"Soft forward compared with the truth, first layer: mean cosine (and median best scale) of {len(SEEDS)}"
            " nets, by the standard deviation of hidden weights.",
            ("", *(f"depth {depth}" for depth in deep_binary.DEPTHS)),
            [(f"{spread:g}", *(f"{c:.3f} ({s:.2g})" for c, s in row)) for spread, row in cosines.items()],
        ),
    ]
    return Answer(
        _checks({row.contender: row for row in shallow}, cosines), tables, figure=figures.overview([*shallow, *deep])
    )


def _checks(rows: dict[str, ContenderScore], cosines: dict[float, list[tuple[float, float]]]) -> list[Check]:
    loo, st, reinmax = (rows[name].score for name in ("score_function", "sampled logistic", "reinmax"))
    bias = "not resolved" if not loo.resolved else f"{loo.bias:.3g}"
    ends = {spread: (row[0][0], row[-1][0]) for spread, row in cosines.items()}
    fell = all(last < first for first, last in ends.values())
    words = ", ".join(f"{a:.2f} to {b:.2f} at {spread:g}" for spread, (a, b) in ends.items())
    return [
        Check("the score function is unbiased", f"bias {bias} ({loo.bias:.3g} ± {loo.error:.2g})", not loo.resolved),
        Check(
            "ReinMax has far less bias than straight-through",
            f"{reinmax.bias:.3f} ± {reinmax.error:.3f} against {st.bias:.3f} ± {st.error:.3f}",
            reinmax.bias + 2 * reinmax.error < 0.5 * st.bias,
        ),
        *(_check_reversal(T) for T in WARMTHS),
        Check(
            "the soft forward's cosine falls with depth, from 1 to 6 layers",
            "by the standard deviation of hidden weights: " + words,
            fell,
            "The result depends on the weights: the soft forward is wrong where units are far from linear. With small "
            "hidden weights its cosine stays good or rises with depth; with large hidden weights it falls. One net of "
            "either kind shows nothing. An enumeration written independently of this code gives the same result.",
        ),
    ]


def _rows(setting: Setting, draws: int) -> list[ContenderScore]:
    return [score_contender(c, setting, draws) for c in contenders(setting) if c.name in figures.SHOWN]


def _cells(row: ContenderScore) -> tuple[str, ...]:
    every = cells(row)
    return (figures.SHOWN[row.contender], every[1], every[2], every[3], every[5], every[4], every[7])


def _soft(depth: int, spread: float) -> tuple[float, float]:
    """Mean cosine and median best scale."""
    found = []
    for seed in SEEDS:
        net, first = deep_binary.network(depth, spread=spread, seed=100 * seed), normal((48,), 100 * seed + 3) / 8**0.5
        setting = Setting("", "", Heaviside(), first, gradient(net.expected, first), net.loss)
        found.append(score(sample(Contender("", Smooth()), setting, draws=1).gradients, setting.truth))
    cosines, scales = ([x or 0.0 for x in column] for column in zip(*((s.cosine, s.scale) for s in found), strict=True))
    return sum(cosines) / len(cosines), float(torch.tensor(scales).median())


def _check_reversal(T: float) -> Check:
    orders = torch.tensor([_order(T, seed) for seed in SEEDS])
    return Check(
        f"with Gumbel-softmax at T = {T:g}, the order by one sample's cosine is nearly the reverse of that by bias",
        f"rank correlation of the two orders of six estimators: {orders.mean():.2f}, mean of {len(SEEDS)} nets"
        f" ({orders.min():.2f} to {orders.max():.2f})",
        float(orders.mean()) < -0.5,
        f"The score function has the least bias and by far the smallest cosine. But at T = {T:g} Gumbel-softmax has no "
        "less bias than straight-through, and a smaller cosine: these two are not in reverse order.",
    )


def _order(T: float, seed: int) -> float:
    """Rank correlation of bias and one sample's cosine, both best first, on a net; Gumbel-softmax at T."""
    net, weights = binary_network.network(seed=100 * seed), normal((16 * 8,), 100 * seed + 3) / 4
    setting = Setting("", "", Heaviside(), weights, gradient(net.expected, weights), net.loss)
    six = (None, ReinMax(), Gumbel(T, value="soft"), Gumbel(T), Sampled(), Smooth())
    found = [score(sample(Contender("", s), setting, draws=1000).gradients, setting.truth) for s in six]
    return -_rank_correlation([s.bias if s.resolved else 0.0 for s in found], [s.sample_cosine for s in found])


def _rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    ranks = torch.stack([torch.tensor(x).argsort().argsort().double() for x in (a, b)])
    return float(torch.corrcoef(ranks)[0, 1])
