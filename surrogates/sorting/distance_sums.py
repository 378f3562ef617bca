"""Products with SoftSort's weights by sums along a sorted row, in n log n time and linear memory, without a matrix.

With ascending x and e_i = exp((x_i - x_1) / T), the weight K_ij = exp(-|x_i - x_j| / T) is e_j / e_i below x_i and e_i
/ e_j above it, so

    sum_j K_ij v_j = sum_{x_j < x_i} e_j v_j / e_i + sum_{x_j = x_i} v_j + e_i sum_{x_j > x_i} v_j / e_j.

The sums over j are running sums. float64 holds every e_i of a row whose ends are up to 600 T apart.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.known import at_hand, readable
from surrogates.sorting.values import ordered

REACH = 600.0  # largest distance between the ends of a row, in units of T


def within_reach(rows: Tensor, T: Tensor | float) -> bool:
    """Whether float64 holds the factors e_i of these rows; False, too, if reading them breaks a graph or waits."""
    temperature = readable(T)
    if temperature is None or rows.numel() == 0 or not at_hand(rows):
        return False
    low, high = rows.detach().aminmax(dim=-1)
    return bool((high - low).max() <= REACH * temperature)


def sorted_values(rows: Tensor, T: Tensor | float) -> Tensor:
    """P x, (..., n) by ranks, with SoftSort's P_ij = K_ij / sum_k K_ik, K_ij = exp(-|x_(i) - x_j| / T)."""
    x = ordered(rows)[0].double()
    weighted, total = distance_sums(x, torch.stack([x, torch.ones_like(x)], -2), T).unbind(-2)
    return (weighted / total).to(rows.dtype)


def mean_ranks(rows: Tensor, T: Tensor | float) -> Tensor:
    """sum_i i P_ij / sum_i P_ij, (..., n) by entries."""
    values, order = ordered(rows)
    x = values.double()
    places = torch.arange(1, rows.shape[-1] + 1, dtype=x.dtype, device=x.device)
    share = 1 / distance_sums(x, torch.ones_like(x).unsqueeze(-2), T)
    weighted, total = distance_sums(x, torch.cat([places * share, share], -2), T).unbind(-2)
    return torch.empty_like(rows).scatter(-1, order, (weighted / total).to(rows.dtype))


def distance_sums(x: Tensor, v: Tensor, T: Tensor | float) -> Tensor:
    """sum_j exp(-|x_i - x_j| / T) v_j for ascending x (..., n) and v (..., c, n); |.| has the derivative 0 at a tie."""
    level = x.detach()
    first = torch.searchsorted(level, level).unsqueeze(-2).expand_as(v)  # how many entries are below x_i
    last = torch.searchsorted(level, level, right=True).unsqueeze(-2).expand_as(v)  # how many are at most x_i
    height = ((x - level[..., :1]) / T).unsqueeze(-2)
    e, inverse = height.exp(), (-height).exp()  # float64 holds products of the two, not quotients by e * e
    up, tied = (F.pad(terms.cumsum(-1), (1, 0)) for terms in (v * e, v))
    down = F.pad((v * inverse).flip(-1).cumsum(-1).flip(-1), (0, 1))
    return up.gather(-1, first) * inverse + tied.gather(-1, last) - tied.gather(-1, first) + down.gather(-1, last) * e
