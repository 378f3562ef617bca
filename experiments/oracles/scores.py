"""How far a gradient estimator is from the truth, beyond one number."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.measuring.alignment import cosine, scale

ROUNDING = 1e-7  # relative; a bias below it is rounding (temperatures are float32)


@dataclass(frozen=True)
class GradientScore:
    """Of samples G_i with mean m, against the truth g; relative to |g|. Undefined numbers are None.

    - `bias` |m - g| / |g|, its standard error sqrt(tr Cov / M) / |g|; below two errors it is not resolved
    - `deviation` sqrt(tr Cov) / |g|
    - `cosine` of m and g, `sample_cosine` the mean of those of single samples (0 for a zero gradient)
    - `scale` a = <m, g> / <m, m>, the best factor, and `residual` |a m - g| / |g| after it
    - `descent` the share of samples with <G_i, g> > 0
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
        """Whether the bias is more than sampling, or rounding, makes."""
        return self.bias > max(2 * self.error, ROUNDING)


def score(samples: Tensor, truth: Tensor) -> GradientScore:
    """Scores samples (M, n) against a truth (n,) that is not 0; raises ValueError if it is, or shapes disagree."""
    if samples.dim() != 2 or samples.shape[1:] != truth.shape:
        raise ValueError(f"samples must be (M, n) for a truth (n,), got {tuple(samples.shape)}, {tuple(truth.shape)}")
    size = truth.norm()
    if not size > 0:
        raise ValueError("the true gradient is 0: nothing is relative to it")
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
