"""Relaxed permutation matrices (..., n, n) of rows (..., n): [rank, entry], ascending; the weights of a rank sum to 1.

Infinite entries keep their hard ranks and have the weight 0 at the other ranks. In the forms with a softmax, a weight
below the dtype's normal range is 0; a weight up to n times above that range may be 0 too.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.kernels import KERNELS
from surrogates.known import known_finite
from surrogates.sorting.networks import relaxed
from surrogates.sorting.relaxed_order import Law, product, weights
from surrogates.sorting.values import ordered, without_infinity

Relaxation = Callable[[Tensor, Tensor | float, slice], Tensor]
ALL = slice(None)  # the ranks wanted


def exact_matrix(order: Tensor, rows: Tensor) -> Tensor:
    """The permutation matrix of an order, or its rows for some ranks; NaN for a row with a NaN."""
    zeros = torch.zeros((*order.shape, rows.shape[-1]), dtype=rows.dtype, device=rows.device)
    matrix = zeros.scatter(-1, order.unsqueeze(-1), 1.0)
    return matrix.masked_fill(rows.isnan().any(-1, keepdim=True).unsqueeze(-1), torch.nan)


def soft_sort(rows: Tensor, T: Tensor | float, ranks: slice = ALL) -> Tensor:
    """softmax over j of -|x_(i) - x_j| / T (Prillo & Eisenschlos 2020, arXiv 2006.16038)."""
    values, order = (tensor[..., ranks] for tensor in ordered(rows))
    if known_finite(rows):
        return weights(SOFT_SORT, T, values, rows)
    entries = torch.where(_participants(rows), without_infinity(rows), torch.inf)  # infinitely far from finite values
    return _with_hard_ranks(weights(SOFT_SORT, T, without_infinity(values), entries), values, order, rows)


def neural_sort(rows: Tensor, T: Tensor | float, ranks: slice = ALL) -> Tensor:
    """softmax over j of ((2 i - 1 - n) x_j - sum_k |x_j - x_k|) / T (Grover et al. 2019, arXiv 1903.08850)."""
    n = rows.shape[-1]
    factors = 2 * torch.arange(n, dtype=rows.dtype, device=rows.device)[ranks] + 1 - n
    if known_finite(rows):
        return weights(NEURAL_SORT, T, factors.expand(*rows.shape[:-1], -1), rows, _distances(rows, rows))
    values, order = (tensor[..., ranks] for tensor in ordered(rows))
    low, high = ((rows == end).sum(-1, keepdim=True) for end in (-torch.inf, torch.inf))
    entries = without_infinity(rows)
    distances = _distances(rows, entries) + (high - low) * entries  # to finite entries only
    distances = torch.where(_participants(rows), distances, torch.inf)
    return _with_hard_ranks(weights(NEURAL_SORT, T, factors + high - low, entries, distances), values, order, rows)


def _distances(rows: Tensor, entries: Tensor) -> Tensor:
    """sum_k |x_j - x_k| by running sums; `entries` are the rows, with 0 in place of infinite numbers."""
    order = rows.detach().sort(dim=-1).indices
    level = rows.detach().gather(-1, order)
    first = torch.searchsorted(level, rows.detach().contiguous())  # how many entries are below x_j
    last = torch.searchsorted(level, rows.detach().contiguous(), right=True)  # how many are at most x_j
    sums = F.pad(entries.gather(-1, order).double().cumsum(-1), (1, 0))
    below, above = sums.gather(-1, first), sums[..., -1:] - sums.gather(-1, last)
    return ((first + last - rows.shape[-1]) * entries - below + above).to(rows.dtype)


def network(rows: Tensor, T: Tensor | float, ranks: slice = ALL) -> Tensor:
    """The product of soft swaps with the Cauchy kernel (Petersen et al. 2022, arXiv 2203.09630): monotone."""
    return relaxed(rows, KERNELS["cauchy"], T, positions=True)[..., ranks, :]


def network_logistic(rows: Tensor, T: Tensor | float, ranks: slice = ALL) -> Tensor:
    """The product of soft swaps with the logistic kernel (Petersen et al. 2021, arXiv 2105.04019): not monotone."""
    return relaxed(rows, KERNELS["logistic"], T, positions=True)[..., ranks, :]


def _soft_logits(values: Tensor, entries: Tensor) -> Tensor:
    return (values.unsqueeze(-1) - entries.unsqueeze(-2)).abs_().neg_()


def _soft_slopes(slope: Tensor, values: Tensor, entries: Tensor) -> tuple[Tensor, ...]:
    signed = slope * (values.unsqueeze(-1) - entries.unsqueeze(-2)).sign_()
    return -signed.sum(-1), signed.sum(-2)


def _neural_logits(factors: Tensor, entries: Tensor, distances: Tensor) -> Tensor:
    """f_i x_j - d_j minus its maximum over j, as the division by T could overflow without that."""
    logits = (factors.unsqueeze(-1) * entries.unsqueeze(-2)).sub_(distances.unsqueeze(-2))
    return logits.sub_(logits.detach().amax(-1, keepdim=True)) if logits.numel() else logits


def _neural_slopes(slope: Tensor, factors: Tensor, entries: Tensor, distances: Tensor) -> tuple[Tensor, ...]:
    by_entries, by_distances = product(torch.stack([factors, -torch.ones_like(factors)], -2), slope).unbind(-2)
    return torch.zeros_like(factors), by_entries, by_distances


SOFT_SORT, NEURAL_SORT = Law(_soft_logits, _soft_slopes), Law(_neural_logits, _neural_slopes)


def _participants(rows: Tensor) -> Tensor:
    """The finite entries; all entries of a row without a finite one."""
    finite = ~rows.isinf()
    return finite | ~finite.any(-1, keepdim=True)


def _with_hard_ranks(soft: Tensor, values: Tensor, order: Tensor, rows: Tensor) -> Tensor:
    """The soft weights, with hard weights at ranks of infinite value."""
    return torch.where(values.isinf().unsqueeze(-1), exact_matrix(order, rows.detach()), soft)
