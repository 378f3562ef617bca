"""Products with a relaxed permutation: soft sorted values and mean ranks of rows (..., n)."""

from __future__ import annotations

import torch
from torch import Tensor

from surrogates.sorting import distance_sums
from surrogates.sorting.permutations import ALL, Relaxation, soft_sort
from surrogates.sorting.relaxed_order import product
from surrogates.sorting.values import hard_ranks, ordered, with_nan_rows, without_infinity

FEW = 16  # up to this many ranks the matrix costs less than the sums along the sorted row


def soft_values(relaxation: Relaxation, rows: Tensor, T: Tensor | float, ranks: slice = ALL) -> Tensor:
    """P x by ranks, ascending; infinite values keep their places, with derivative 0."""
    count = len(range(rows.shape[-1])[ranks])
    if relaxation is soft_sort and count > FEW and distance_sums.within_reach(rows, T):
        return distance_sums.sorted_values(rows, T)[..., ranks]
    values = ordered(rows)[0][..., ranks]
    soft = product(relaxation(rows, T, ranks), without_infinity(rows).unsqueeze(-1)).squeeze(-1)
    return torch.where(values.isinf(), with_nan_rows(values.detach(), rows), soft)


def mean_ranks(relaxation: Relaxation, rows: Tensor, T: Tensor | float) -> Tensor:
    """sum_i i P_ij / sum_i P_ij by entries, as P's columns need not sum to 1; infinite entries have hard ranks."""
    if relaxation is soft_sort and rows.shape[-1] > FEW and distance_sums.within_reach(rows, T):
        return distance_sums.mean_ranks(rows, T)
    places = torch.arange(1, rows.shape[-1] + 1, dtype=rows.dtype, device=rows.device)
    weighted, total = product(torch.stack([places, torch.ones_like(places)]), relaxation(rows, T, ALL)).unbind(-2)
    return torch.where(rows.isinf(), hard_ranks(rows), weighted / total)
