"""Max pooling in terms of the op max; each function has the arguments of the torch function of its name."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.ops.max import Max
from surrogates.own_model.choice import NotReplaced
from surrogates.own_model.elementwise import Apply

Sizes = int | tuple[int, ...]


def max_pool1d(
    apply: Apply,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    """The largest entry of each window along the last dim."""
    return _pool(apply, input, 1, kernel_size, stride or kernel_size, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    apply: Apply,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    """The largest entry of each window along the last two dims."""
    return _pool(apply, input, 2, kernel_size, stride or kernel_size, padding, dilation, ceil_mode, return_indices)


def adaptive_max_pool1d(apply: Apply, input: Tensor, output_size: Sizes, return_indices: bool = False) -> Tensor:
    """The largest entry of each of output_size windows along the last dim."""
    return _adaptive_pool(apply, input, 1, output_size, return_indices)


def adaptive_max_pool2d(apply: Apply, input: Tensor, output_size: Sizes, return_indices: bool = False) -> Tensor:
    """The largest entry of each of output_size windows along the last two dims; None keeps a dim's size."""
    return _adaptive_pool(apply, input, 2, output_size, return_indices)


def _adaptive_pool(apply: Apply, input: Tensor, dims: int, output_size: Sizes, return_indices: bool) -> Tensor:
    """Window i of n entries reaches from floor(i n / size) to ceil((i + 1) n / size)."""
    if return_indices:
        raise NotReplaced("return_indices=True is not supported")
    sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * dims
    if 0 in sizes:
        raise NotReplaced("no window")
    windows = input
    for dim, size in zip(range(input.dim() - dims, input.dim()), sizes, strict=True):
        n = input.shape[dim]
        first = torch.arange(n if size is None else int(size), device=input.device) * n
        start, end = first // len(first), -(-(first + n) // len(first))
        place = start[:, None] + torch.arange(int((end - start).max()), device=input.device)
        entries = windows.index_select(dim, place.clamp(max=n - 1).flatten())
        entries = entries.reshape(*windows.shape[:dim], *place.shape, *windows.shape[dim + 1 :])
        inside = place < end[:, None]
        windows = torch.where(_along(inside, dim, entries.dim()), entries, -math.inf).movedim(dim + 1, -1)
    return apply(Max(-1), windows.flatten(input.dim()))


def _along(mask: Tensor, dim: int, dims: int) -> Tensor:
    """A mask of two dimensions in the places `dim` and `dim` + 1 of several."""
    return mask.reshape(*[1] * dim, *mask.shape, *[1] * (dims - dim - 2))


def _pool(
    apply: Apply,
    input: Tensor,
    dims: int,
    kernel_size: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    return_indices: bool,
) -> Tensor:
    if return_indices:
        raise NotReplaced("return_indices=True is not supported")
    windows = input
    sizes = (_each(size, dims) for size in (kernel_size, stride, padding, dilation))
    for dim, (k, s, p, d) in zip(range(-dims, 0), zip(*sizes, strict=True), strict=True):
        windows = _windows(windows, input.dim() + dim, k, s, p, d, ceil_mode)
    return apply(Max(-1), windows.flatten(input.dim()))


def _windows(x: Tensor, dim: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> Tensor:
    """Adds a last dim of k entries, d apart, for every s-th place; padded with -inf as by torch's pooling."""
    n, reach = x.shape[dim], d * (k - 1) + 1
    free = n + 2 * p - reach
    count = (-(-free // s) if ceil_mode else free // s) + 1
    if ceil_mode and (count - 1) * s >= n + p:
        count -= 1  # the last window must start inside the input or the padding on its left
    after = (count - 1) * s + reach - n - p
    if p or after > 0:
        pads = [0, 0] * (x.dim() - 1 - dim) + [p, max(after, 0)]
        x = F.pad(x, pads, value=-math.inf)
    return x.unfold(dim, reach, s).narrow(dim, 0, count)[..., ::d]


def _each(size: Sizes, dims: int) -> tuple[int, ...]:
    return tuple(map(int, size)) * (dims // len(size)) if isinstance(size, (tuple, list)) else (int(size),) * dims
