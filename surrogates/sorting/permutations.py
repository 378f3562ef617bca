"""Relaxed permutation matrices (..., n, n) of rows (..., n): [rank, entry], ascending, each rank's weights sum to 1.

Infinite entries keep their hard ranks and have no part in the others'. In the forms with a softmax a weight below the
dtype's normal range is 0, and so may one be that is up to n times above it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from surrogates.kernels import KERNELS
from surrogates.known import known_finite
from surrogates.sorting.networks import relaxed
from surrogates.sorting.relaxed_order import Law, relaxed_weights, softmax
from surrogates.sorting.sort_laws import NeuralSort, SoftSort, below_maximum, linear, stable_order

Relaxation = Callable[[Tensor, Tensor | float, slice], Tensor]
ALL = slice(None)  # the ranks wanted


def to_last(x: Tensor, dim: int) -> Tensor:
    """With a dim moved to be the last."""
    return x if dim == -1 else x.movedim(dim, -1)


def from_last(x: Tensor, dim: int) -> Tensor:
    """With the last dim moved to where a dim was."""
    return x if dim == -1 else x.movedim(-1, dim)


def ordered(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The sorted values of rows, with their graph, and the order; tied entries stay as they were."""
    order = stable_order(rows)
    return rows.gather(-1, order), order


def exact_matrix(order: Tensor, rows: Tensor) -> Tensor:
    """The permutation matrix of an order, or of some of its ranks; NaN for a row with a NaN."""
    zeros = torch.zeros((*order.shape, rows.shape[-1]), dtype=rows.dtype, device=rows.device)
    matrix = zeros.scatter(-1, order.unsqueeze(-1), 1.0)
    return matrix.masked_fill(rows.isnan().any(-1, keepdim=True).unsqueeze(-1), torch.nan)


def soft_sort(rows: Tensor, T: Tensor | float, ranks: slice = ALL) -> Tensor:
    """softmax over j of -|x_(i) - x_j| / T (Prillo & Eisenschlos 2020, arXiv 2006.16038)."""
    if known_finite(rows):
        return _finite(SoftSort(), rows, T, ranks)
    values, order = (sorted_[..., ranks] for sorted_ in ordered(rows))
    entries = torch.where(_participants(rows), _no_infinity(rows), torch.inf)  # infinitely far from every finite value
    distance = (_no_infinity(values).unsqueeze(-1) - entries.unsqueeze(-2)).abs()
    return _settled(softmax(distance / -T), values, order, rows)


def neural_sort(rows: Tensor, T: Tensor | float, ranks: slice = ALL) -> Tensor:
    """softmax over j of ((2 i - 1 - n) x_j - sum_k |x_j - x_k|) / T (Grover et al. 2019, arXiv 1903.08850)."""
    if known_finite(rows):
        return _finite(NeuralSort(), rows, T, ranks)
    values, order = (sorted_[..., ranks] for sorted_ in ordered(rows))
    finite = ~rows.isinf()
    entries = _no_infinity(rows)
    gaps = (entries.unsqueeze(-1) - entries.unsqueeze(-2)).abs()
    spread = torch.where(finite.unsqueeze(-2), gaps, 0).sum(-1)
    place = torch.arange(rows.shape[-1], device=rows.device)[ranks] - (rows == -torch.inf).sum(-1, keepdim=True)
    slope = (2 * place + 1 - finite.sum(-1, keepdim=True)).to(rows.dtype)
    logits = linear(entries, spread, slope).masked_fill(~_participants(rows).unsqueeze(-2), -torch.inf)
    return _settled(softmax(below_maximum(logits) / T), values, order, rows)


def network(rows: Tensor, T: Tensor | float, ranks: slice = ALL) -> Tensor:
    """The product of soft swaps with the Cauchy kernel (Petersen et al. 2022, arXiv 2203.09630): monotone."""
    return relaxed(rows, KERNELS["cauchy"], T, positions=True)[..., ranks, :]


def network_logistic(rows: Tensor, T: Tensor | float, ranks: slice = ALL) -> Tensor:
    """The product of soft swaps with the logistic kernel (Petersen et al. 2021, arXiv 2105.04019): not monotone."""
    return relaxed(rows, KERNELS["logistic"], T, positions=True)[..., ranks, :]


def _finite(law: Law, rows: Tensor, T: Tensor | float, ranks: slice) -> Tensor:
    return relaxed_weights(law, rows, law.places(rows)[..., ranks], T)


LAWS: dict[Relaxation, Law] = {soft_sort: SoftSort(), neural_sort: NeuralSort()}  # those with logits, for finite rows


def _no_infinity(x: Tensor) -> Tensor:
    return torch.where(x.isinf(), 0, x)


def _participants(rows: Tensor) -> Tensor:
    """The entries that are not infinite; all of a row that has no other."""
    finite = ~rows.isinf()
    return finite | ~finite.any(-1, keepdim=True)


def _settled(soft: Tensor, values: Tensor, order: Tensor, rows: Tensor) -> Tensor:
    """The soft weights, with the hard ones at ranks whose value is infinite."""
    return torch.where(values.isinf().unsqueeze(-1), exact_matrix(order, rows.detach()), soft)
