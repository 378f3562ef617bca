"""Scores estimators on many random binary nets, of one layer and of several."""

from __future__ import annotations

import math
from collections.abc import Sequence

from experiments.oracles import binary_network, deep_binary
from experiments.oracles.contenders import Contender
from experiments.oracles.sampling import sample
from experiments.oracles.scores import GradientScore, rank_correlation, score
from experiments.oracles.setting import Setting, gradient, normal
from surrogates.core import Strategy
from surrogates.ops.heaviside import Heaviside
from surrogates.strategies.gumbel import Gumbel
from surrogates.strategies.reinmax import ReinMax
from surrogates.strategies.sampled import Sampled
from surrogates.strategies.smooth import Smooth

DRAWS = 1000
SCORE, REINMAX, ST, SOFT = "score function", "ReinMax", "ST", "soft forward"
DEEP: dict[str, Strategy] = {
    ST: Sampled(),
    REINMAX: ReinMax(),
    "Gumbel-softmax": Gumbel(value="soft"),
    "ST Gumbel-softmax": Gumbel(),
}


def six_estimators(T: float) -> dict[str, Strategy | None]:
    """Lists the score function (None), ReinMax, both forms of Gumbel-softmax at T, ST and the soft forward."""
    gumbel = {"Gumbel-softmax": Gumbel(T, value="soft"), "ST Gumbel-softmax": Gumbel(T)}
    return {SCORE: None, REINMAX: ReinMax(), **gumbel, ST: Sampled(), SOFT: Smooth()}


def score_shallow(strategy: Strategy | None, seeds: Sequence[int]) -> list[GradientScore]:
    """Scores an estimator on a net of one layer of 8 units for each seed."""
    return [_score(_shallow(seed), strategy) for seed in seeds]


def score_deep(strategy: Strategy, seeds: Sequence[int], depth: int, spread: float = 1.0) -> list[GradientScore]:
    """Scores an estimator's first-layer gradient on a deep net for each seed; `spread` is that of hidden weights."""
    return [_score(deep_binary.random_setting(depth, seed, spread)[0], strategy) for seed in seeds]


def cosines(scores: Sequence[GradientScore]) -> list[float]:
    """Lists the cosines of the mean; 0 where the mean is 0."""
    return [s.cosine or 0.0 for s in scores]


def agreement_of_orders(net: Sequence[GradientScore]) -> float:
    """Rank correlation of bias and one sample's cosine over the estimators of a net, both best first."""
    return -rank_correlation([s.bias if s.resolved else 0.0 for s in net], [s.sample_cosine for s in net])


def scale_growth(first: Sequence[GradientScore], last: Sequence[GradientScore]) -> list[float]:
    """Lists log2 of the growth of the best scale, one for each net."""
    return [math.log2((b.scale or math.nan) / (a.scale or math.nan)) for a, b in zip(first, last, strict=True)]


def _shallow(seed: int) -> Setting:
    net, weights = binary_network.network(seed=seed), normal((16 * 8,), seed + 3) / 4
    return Setting("", "", Heaviside(), weights, gradient(net.expected, weights), net.loss)


def _score(setting: Setting, strategy: Strategy | None) -> GradientScore:
    draws = 1 if isinstance(strategy, Smooth) else DRAWS
    return score(sample(Contender("", strategy), setting, draws=draws).gradients, setting.truth)
