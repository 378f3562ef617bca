"""The analysis of variance of a factorial design in blocks."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
BLOCK, RESIDUAL = "seed", "residual"


@dataclass(frozen=True)
class Term:
    """A factor, an interaction, the block (the seed) or the residual; `f` and `p` are NaN for the residual.

    - `factors`: the places of its factors among all factors; empty for the block and the residual
    - `df`: degrees of freedom
    - `squares`: sum of squares
    - `share`: sum of squares divided by the total (eta squared)
    """

    name: str
    factors: tuple[int, ...]
    df: int
    squares: float
    share: float
    f: float
    p: float


def analyse(scores: Numbers, names: Sequence[str]) -> list[Term]:
    """The terms of y = mean + sum of effect_S over all sets S of factors + block + residual.

    `scores` has the shape (levels of factor 1, ..., levels of factor k, blocks). Each size is at least 2, and the
    residual is not 0. F = (SS / df) / (SS_residual / df_residual). It has Fisher's law if the term has no effect and
    the residuals are independent, normal and of equal variance (Fisher 1935, The Design of Experiments).
    """
    from scipy.stats import f as fisher

    total = float(np.square(scores - scores.mean()).sum())
    error = residuals(scores)
    error_squares, error_df = float(np.square(error).sum()), (error.shape[0] - 1) * (error.shape[1] - 1)

    def term(name: str, factors: tuple[int, ...], axes: tuple[int, ...]) -> Term:
        df = math.prod(scores.shape[axis] - 1 for axis in axes)
        effect = _effect(scores, axes)
        squares = float(np.square(effect).sum()) * scores.size / effect.size
        f = squares / df / (error_squares / error_df)
        return Term(name, factors, df, squares, squares / total, f, float(fisher.sf(f, df, error_df)))

    sets = (places for size in range(1, len(names) + 1) for places in combinations(range(len(names)), size))
    found = [term(" x ".join(names[place] for place in places), places, places) for places in sets]
    found.append(term(BLOCK, (), (len(names),)))
    return [*found, Term(RESIDUAL, (), error_df, error_squares, error_squares / total, math.nan, math.nan)]


def residuals(scores: Numbers) -> Numbers:
    """Score - mean of its combination of levels - mean of its block + mean of all, (combinations, blocks)."""
    return _effect(scores.reshape(-1, scores.shape[-1]), (0, 1))


def _effect(scores: Numbers, axes: Collection[int]) -> Numbers:
    """Subtracts the mean along each of `axes`, and takes the mean along all others, which get the size 1."""
    for axis in range(scores.ndim):
        mean = scores.mean(axis, keepdims=True)
        scores = scores - mean if axis in axes else mean
    return scores


def ranges(scores: Numbers, factor: int) -> tuple[float, float]:
    """The range of the means of a factor's levels, and the range of the means of their best combinations.

    The best combination of a level has the highest mean over the blocks.
    """
    means = np.moveaxis(scores.mean(-1), factor, 0).reshape(scores.shape[factor], -1)
    return float(np.ptp(means.mean(1))), float(np.ptp(means.max(1)))
