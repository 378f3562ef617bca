"""Scores the distance of a gradient estimator from the truth, in several numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.measuring.alignment import cosine, scale

ROUNDING = 1e-7  # relative; a bias below it is rounding (temperatures are float32)


@dataclass(frozen=True)
class GradientScore:
    """The score of samples G_i with mean m against the truth g. An undefined number is None.

    - `bias` |m - g| / |g|, and `error` sqrt(tr Cov / M) / |g|, its standard error
    - `deviation` sqrt(tr Cov) / |g|
    - `cosine` of m and g; `sample_cosine`, the mean cosine of G_i and g (0 for a zero gradient)
    - `scale` a = <m, g> / <m, m>, the factor that brings m nearest to g; `residual` |a m - g| / |g|
    - `descent`, the share of samples with <G_i, g> > 0
    """

    bias: float
    error: float
    deviation: float
    cosine: float | None
    sample_cosine: float
    scale: float | None
    residual: float
    descent: float
    samples: int

    @property
    def resolved(self) -> bool:
        """Whether the bias is above two standard errors and above rounding."""
        return self.bias > max(2 * self.error, ROUNDING)


def score(samples: Tensor, truth: Tensor) -> GradientScore:
    """Scores samples (M, n) against a truth (n,).

    Raises ValueError if the truth is 0, or if the shapes disagree.
    """
    if samples.dim() != 2 or samples.shape[1:] != truth.shape:
        raise ValueError(f"samples must be (M, n) for a truth (n,), got {tuple(samples.shape)}, {tuple(truth.shape)}")
    size = truth.norm()
    if not size > 0:
        raise ValueError("the true gradient is 0, so no relative error exists")
    count = len(samples)
    mean = samples.mean(0)
    spread = samples.var(0).sum().sqrt() if count > 1 else torch.zeros(())
    cosines = torch.where(samples.any(1), cosine(samples, truth), 0)
    known = bool(mean.any())
    nearest = scale(mean, truth) * mean if known else mean
    return GradientScore(
        bias=((mean - truth).norm() / size).item(),
        error=(spread / size).item() / math.sqrt(count),
        deviation=(spread / size).item(),
        cosine=cosine(mean, truth).item() if known else None,
        sample_cosine=cosines.mean().item(),
        scale=scale(mean, truth).item() if known else None,
        residual=((nearest - truth).norm() / size).item(),
        descent=(samples @ truth > 0).double().mean().item(),
        samples=count,
    )


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Computes Spearman's rank correlation; ties have their mean rank."""
    from scipy import stats

    return float(stats.spearmanr(a, b).statistic)
