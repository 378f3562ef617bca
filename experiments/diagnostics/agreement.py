"""Measures how well predicted numbers agree with measured ones: order, angle and scale."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.measuring.alignment import cosine, scale

RESAMPLES = 1000
FEWEST = 3  # pairs that a correlation needs


@dataclass(frozen=True)
class Agreement:
    """Agreement of predictions a and measurements f over directions; `low`, `high`: 95 % bootstrap ends of `cosine`.

    `cosine` = <a, f> / (|a| |f|); `scale` = <a, f> / <a, a>, the factor that brings a nearest to f; `spearman` is the
    correlation of the ranks, with ties at their mean rank.
    """

    spearman: float
    cosine: float
    low: float
    high: float
    scale: float

    def tags(self) -> dict[str, float]:
        """Returns the numbers by name."""
        names = {"cosine_low": self.low, "cosine_high": self.high, "scale": self.scale}
        return {"spearman": self.spearman, "cosine": self.cosine, **names}


def agreement(predicted: Tensor, measured: Tensor, seed: int) -> Agreement | None:
    """Computes the agreement of vectors (m,); None if one is constant or not finite, or if m is below FEWEST."""
    both = torch.stack([predicted, measured])
    if both.shape[1] < FEWEST or not both.isfinite().all() or (both == both[:, :1]).all(1).any():
        return None
    ranks = _ranks(both)
    picks = torch.randint(both.shape[1], (RESAMPLES, both.shape[1]), generator=torch.Generator().manual_seed(seed))
    cosines = cosine(*both[:, picks.to(both.device)])
    low, high = torch.nanquantile(cosines, both.new_tensor([0.025, 0.975])).tolist()
    return Agreement(
        spearman=float(cosine(*(ranks - ranks.mean(1, keepdim=True)))),
        cosine=float(cosine(*both)),
        low=low,
        high=high,
        scale=float(scale(predicted, measured)),
    )


def _ranks(x: Tensor) -> Tensor:
    """Returns ranks from 1 along the last dim of (k, m); equal numbers get their mean rank."""
    own, others = x.unsqueeze(-1), x.unsqueeze(-2)
    return ((others < own).sum(-1) + (others <= own).sum(-1) + 1).double() / 2
