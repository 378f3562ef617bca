"""E[table(x + T e)] for a table on an evenly spaced grid: the entries weighted by their probabilities.

Autograd would keep several tensors an entry. The Function below keeps its inputs and works in pieces, in bounded
memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surrogates.float32 import without_autocast
from surrogates.kernels import Kernel
from surrogates.known import dual, number_like
from surrogates.staircases.steps import Steps, width
from surrogates.torch_private import transforms_active

PIECE = 2**19  # numbers that fit into a CPU's cache
GATHER = 0.1  # gathering an entry costs as much as ten entries of a product, so a window must be that much smaller


def mixture(x: Tensor, table: Tensor, kernel: Kernel, T: Tensor | float, low: float, step: float) -> Tensor:
    """sum_j table[j] P(j = floor((x + T e - low) / step), held between 0 and n - 1), for x (...) and a table (n,)."""
    count = len(table) - 1
    temperature = number_like(x, T)
    whole = Steps(kernel, low + step, step, count, count)
    if _by_torch(x, table, temperature):
        return _mix(x.unsqueeze(-1), table, temperature, whole)
    steps = Steps(kernel, low + step, step, count, width(kernel, x, T, step, count, GATHER))
    mixed: Tensor = _Mixture.apply(x.reshape(-1), table, temperature, steps)
    return mixed.reshape(x.shape)


def shares(x: Tensor, T: Tensor | float, steps: Steps) -> Tensor:
    """The probability of each entry between `steps`, (..., n) for x (..., 1)."""
    edges = steps.first + steps.step * torch.arange(steps.count, dtype=x.dtype, device=x.device)
    beyond = steps.kernel.cdf((x - edges) / T)
    return torch.cat([torch.ones_like(x), beyond], -1) - torch.cat([beyond, torch.zeros_like(x)], -1)


def _mix(x: Tensor, table: Tensor, T: Tensor, steps: Steps) -> Tensor:
    return (table * shares(x, T, steps)).sum(-1)


def _by_torch(x: Tensor, table: Tensor, T: Tensor) -> bool:
    """Whether autograd differentiates the sum: under a compiler, torch.func or forward mode, or with mixed dtypes."""
    transformed = torch.compiler.is_compiling() or transforms_active()
    return transformed or dual(x, table) or x.dtype != table.dtype or T.dim() > 0 or len(table) < 2


class _Mixture(torch.autograd.Function):
    """Mixes a table (n,) for x (b,); T is a constant."""

    @staticmethod
    @without_autocast
    def forward(ctx: Any, x: Tensor, table: Tensor, T: Tensor, steps: Steps) -> Tensor:
        ctx.steps = steps
        ctx.save_for_backward(x, table, T)
        mixed = torch.empty_like(x)
        for piece, place in zip(_pieces(x, steps), _pieces(mixed, steps), strict=True):
            place.copy_(_value(piece, table, T, steps))
        return mixed

    @staticmethod
    @without_autocast
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, table, T = ctx.saved_tensors
        steps: Steps = ctx.steps
        if torch.is_grad_enabled():  # for a second derivative
            whole = Steps(steps.kernel, steps.first, steps.step, steps.count, steps.count)
            again = _mix(x.unsqueeze(-1), table, T, whole)
            wanted = [leaf if needed else None for leaf, needed in zip((x, table), ctx.needs_input_grad, strict=False)]
            found = iter(torch.autograd.grad(again, [t for t in wanted if t is not None], gradient, create_graph=True))
            return *(None if leaf is None else next(found) for leaf in wanted), None, None
        by_x, by_table = torch.empty_like(x), torch.zeros_like(table)
        for piece, incoming, place in zip(*(_pieces(t, steps) for t in (x, gradient, by_x)), strict=True):
            torch.mul(incoming, _slopes(piece, incoming, table, T, steps, by_table), out=place)
        return by_x, by_table, None, None


def _pieces(x: Tensor, steps: Steps) -> tuple[Tensor, ...]:
    return torch.split(x, max(1, PIECE // steps.width))


def _value(x: Tensor, table: Tensor, T: Tensor, steps: Steps) -> Tensor:
    u, index = _window(x, T, steps)
    beyond = steps.kernel.cdf(u)
    inner = beyond[:-1] - beyond[1:]
    if index is None:
        return table[0] * (1 - beyond[0]) + table[1:-1] @ inner + table[-1] * beyond[-1]
    entries = table[index]
    outer = entries[0] * (1 - beyond[0]) + entries[-1] * beyond[-1]
    return outer + (entries[1:-1] * inner).sum(0)


def _slopes(x: Tensor, gradient: Tensor, table: Tensor, T: Tensor, steps: Steps, by_table: Tensor) -> Tensor:
    """The derivative by x; the derivative by the table is added to `by_table`."""
    u, index = _window(x, T, steps)
    beyond, density = steps.kernel.cdf_and_density(u)
    inner = beyond[:-1] - beyond[1:]
    first, last = gradient * (1 - beyond[0]), gradient * beyond[-1]
    jumps = table.diff()
    if index is None:
        by_table[1:-1] += inner @ gradient
        by_table[0] += first.sum()
        by_table[-1] += last.sum()
        return jumps @ density / T
    received = torch.cat([first.unsqueeze(0), inner * gradient, last.unsqueeze(0)])
    by_table.index_add_(0, index.flatten(), received.flatten())
    return (jumps[index[:-1]] * density).sum(0) / T


def _window(x: Tensor, T: Tensor, steps: Steps) -> tuple[Tensor, Tensor | None]:
    """(x - edge) / T at the summed edges, (edges, b), and the entries between them; None if all edges are summed."""
    offsets = steps.step * torch.arange(steps.width, dtype=x.dtype, device=x.device).unsqueeze(-1)
    if steps.width == steps.count:
        return (x - steps.first - offsets) / T, None
    start = steps.start(x)
    places = torch.arange(steps.width + 1, device=x.device).unsqueeze(-1)
    return (x - steps.first - start * steps.step - offsets) / T, start.nan_to_num(0).long() + places
