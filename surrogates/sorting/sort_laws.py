"""The logits of SoftSort and NeuralSort for finite rows, ascending, and what their derivative is by the rows."""

from __future__ import annotations

import torch
from torch import Tensor

from surrogates.sorting.relaxed_order import Law


def stable_order(rows: Tensor) -> Tensor:
    """The entries in ascending order; tied ones stay as they were."""
    return rows.detach().sort(dim=-1, stable=True).indices


class SoftSort(Law):
    """-|x_o(i) - x_j| / T, the places an order o."""

    def places(self, rows: Tensor) -> Tensor:
        return stable_order(rows)

    def numbers(self, k: int, n: int) -> int:
        return k * n

    def logits(self, rows: Tensor, places: Tensor, T: Tensor | float) -> Tensor:
        return (rows.gather(-1, places).unsqueeze(-1) - rows.unsqueeze(-2)).abs_().div_(-T)

    def by_rows(self, rows: Tensor, places: Tensor, slope: Tensor) -> Tensor:
        slope.mul_((rows.gather(-1, places).unsqueeze(-1) - rows.unsqueeze(-2)).sign_())
        return slope.sum(-2).scatter_add_(-1, places, slope.sum(-1).neg_())


class NeuralSort(Law):
    """((2 i + 1 - n) x_j - sum_k |x_j - x_k|) / T less their maximum; the places are 2 i + 1 - n, i ranks from 0."""

    def places(self, rows: Tensor) -> Tensor:
        n = rows.shape[-1]
        return torch.arange(1 - n, max(n, 1), 2, dtype=rows.dtype, device=rows.device).expand(rows.shape)

    def numbers(self, k: int, n: int) -> int:
        return n * n

    def logits(self, rows: Tensor, places: Tensor, T: Tensor | float) -> Tensor:
        spread = (rows.unsqueeze(-1) - rows.unsqueeze(-2)).abs_().sum(-1)
        return below_maximum(linear(rows, spread, places)).div_(T)

    def by_rows(self, rows: Tensor, places: Tensor, slope: Tensor) -> Tensor:
        total, by_entry = (torch.stack([torch.ones_like(places), places], -2) @ slope).unbind(-2)
        return self._by_spread(rows, total) + by_entry

    def by_rows_of_product(self, rows: Tensor, places: Tensor, weights: Tensor, left: Tensor, right: Tensor) -> Tensor:
        total, by_entry = (torch.cat([left, left * places.unsqueeze(-2)], -2) @ weights).chunk(2, -2)
        return self._by_spread(rows, (total * right).sum(-2)) + (by_entry * right).sum(-2)

    def _by_spread(self, rows: Tensor, total: Tensor) -> Tensor:
        """Minus the derivative of sum_j total_j sum_k |x_j - x_k|."""
        signs = (rows.unsqueeze(-1) - rows.unsqueeze(-2)).sign_()
        # the signs change theirs with the order of the indices: (t, 1)' signs is -signs (t, 1), and five times as fast
        above, more = (torch.stack([total, torch.ones_like(total)], -2) @ signs).unbind(-2)
        return above + total * more


def linear(rows: Tensor, spread: Tensor, factors: Tensor) -> Tensor:
    """NeuralSort's factors_i x_j - spread_j, (..., k, n)."""
    return torch.addcmul(-spread.unsqueeze(-2), factors.unsqueeze(-1), rows.unsqueeze(-2))


def below_maximum(logits: Tensor) -> Tensor:
    """The logits, in their own memory, less their row's maximum: before they are divided by T, which could overflow."""
    return logits.sub_(logits.detach().amax(-1, keepdim=True)) if logits.numel() else logits
