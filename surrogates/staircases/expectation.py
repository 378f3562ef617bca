"""Exact expectations of staircases under a kernel: E[stairs(x + T e)], in memory that does not grow with their number.

Autograd through a sum over steps would keep one tensor a step. The Function below keeps x only and computes the slope
anew when it is asked for; the slope is made of torch operations, so derivatives of every order follow from it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from surrogates.carriers import applier, slopes_only
from surrogates.kernels import Kernel, Logistic, Normal
from surrogates.known import readable
from surrogates.staircases import fourier_series

CHUNK = 2**16  # numbers
Curve = Callable[[Tensor, Tensor], Tensor]


def unbounded_stairs(x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
    """E[floor(x + 1/2 + T e)], the smooth round: value and slope right at every T and every magnitude of x.

    Near 0 a window of neighbouring steps is exact; at larger T its Fourier series is (Poisson summation). For float32
    both are within 1e-6 where they meet. Compact kernels have a closed form instead of a series.
    """
    read = readable(T)
    value = partial(_one_of, partial(_near_value, kernel), partial(_far_value, kernel, read), kernel, read)
    slope = partial(_one_of, partial(_near_slope, kernel), partial(_far_slope, kernel, read), kernel, read)
    return evaluate(x, T, value, slope)


def tanh_stairs(x: Tensor, a: Tensor | float) -> Tensor:
    """floor(x) + 1/2 + tanh(a r) / (2 tanh(a / 2)), r = x - floor(x) - 1/2: a soft round, but no expectation."""
    n, r = _split(x)
    end = torch.tanh(0.5 * torch.as_tensor(a, dtype=x.dtype, device=x.device))
    return n + (0.5 + torch.tanh(a * r) / (2 * end))


def curve(x: Tensor, T: Tensor | float, value: Curve, slope: Curve) -> Tensor:
    """value(x, T), with torch's own derivatives by x and T; where only slopes are read, `slope` instead of them."""
    temperature = torch.as_tensor(T, dtype=x.dtype, device=x.device)
    return _apply(x, temperature, _stand_in, slope) if slopes_only() else value(x, temperature)


def evaluate(x: Tensor, T: Tensor | float, value: Curve, slope: Curve) -> Tensor:
    """value(x, T), with the derivative slope(x, T) by x, computed when it is asked for; T is a constant.

    Where only slopes are read x itself stands in for the value: it costs nothing, and is infinite where x is.
    """
    temperature = torch.as_tensor(T, dtype=x.dtype, device=x.device)
    if torch.compiler.is_compiling():  # the compiler fuses the sum and recomputes it by itself
        return value(x, temperature)
    return _apply(x, temperature, _stand_in if slopes_only() else partial(in_pieces, value), slope)


def _stand_in(x: Tensor, T: Tensor) -> Tensor:
    if torch._C._are_functorch_transforms_active():  # one for each T under vmap: shared, it would have their sum
        return x + 0 * T
    return x.view_as(x)


def blend(first: Tensor, second: Tensor, gap: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
    """A stand-in with the derivative w = F(gap / T) by `first` and 1 - w by `second`, where only slopes are read.

    All of one shape, finite, and not in torch.func's transforms; the second derivative follows `gap` to its graph.
    """
    temperature = torch.as_tensor(T, dtype=gap.dtype, device=gap.device)
    blended: Tensor = _Blended.apply(first, second, gap, temperature, kernel)
    return blended


class _Blended(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, gap: Tensor, T: Tensor, kernel: Kernel) -> Tensor:
        ctx.kernel = kernel
        ctx.save_for_backward(gap, T)
        return second.expand_as(gap)  # infinite in half precision only where it was

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        gap, T = ctx.saved_tensors
        by_first = gradient * ctx.kernel.cdf(gap / T)
        return by_first, gradient - by_first, None, None, None


class _Recomputed(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, T: Tensor, value: Curve, slope: Curve) -> Tensor:
        return value(x, T)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Curve, Curve], output: Tensor) -> None:
        ctx.slope = inputs[3]
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        x, T = ctx.saved_tensors
        return in_pieces(ctx.slope, x, T, gradient), None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        x, T = ctx.saved_tensors
        return in_pieces(ctx.slope, x, T, tangent)


_apply = applier(_Recomputed)


def in_pieces(curve: Curve, x: Tensor, T: Tensor, factor: Tensor | None = None) -> Tensor:
    """factor curve(x, T), on a CPU in pieces whose intermediate tensors stay in its cache, if no graph is recorded."""
    recorded = torch.is_grad_enabled() or torch._C._are_functorch_transforms_active()
    if x.numel() <= CHUNK or x.is_cuda or recorded:
        return curve(x, T) if factor is None else factor * curve(x, T)
    row = x.reshape(-1)
    result = torch.empty_like(row)
    pieces, places = torch.split(row, CHUNK), torch.split(result, CHUNK)
    if factor is None:
        for piece, place in zip(pieces, places, strict=True):
            place.copy_(curve(piece, T))
    else:
        for piece, place, by in zip(pieces, places, torch.split(factor.reshape(-1), CHUNK), strict=True):
            torch.mul(by, curve(piece, T), out=place)
    return result.view(x.shape)


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    """floor(x) and the offset r in [-1/2, 1/2) from the step in between; r = 0 if x is infinite."""
    n = torch.floor(x)
    return n, torch.nan_to_num(x - n, nan=0.5) - 0.5


def _one_of(near: Curve, far: Curve, kernel: Kernel, read: float | None, x: Tensor, T: Tensor) -> Tensor:
    """The window's sum up to its largest T, the series beyond; both where T could not be read."""
    limit = _window(kernel, x.dtype)[1]
    if read is not None:
        return near(x, T) if read <= limit else far(x, T)
    return torch.where(limit >= T, near(x, T), far(x, T))


def _near_value(kernel: Kernel, x: Tensor, T: Tensor) -> Tensor:
    n, r = _split(x)
    u = r / T
    near = kernel.cdf(u)
    for k in range(1, _window(kernel, x.dtype)[0] + 1):
        near = near + kernel.cdf(u - k / T) - kernel.cdf(-k / T - u)
    return n + near


def _far_value(kernel: Kernel, read: float | None, x: Tensor, T: Tensor) -> Tensor:
    n, r = _split(x)
    if kernel.boxes:
        ripple = _box_ripple(kernel.boxes, r, T)
    else:
        ripple = fourier_series.ripple(kernel, read, r, T, _window(kernel, x.dtype)[2])
    return n + (r + (ripple + 0.5))


def _near_slope(kernel: Kernel, x: Tensor, T: Tensor) -> Tensor:
    u = _split(x)[1] / T
    near = kernel.density(u)
    for k in range(1, _window(kernel, x.dtype)[0] + 1):
        near = near + kernel.density(u - k / T) + kernel.density(u + k / T)
    return near / T


def _far_slope(kernel: Kernel, read: float | None, x: Tensor, T: Tensor) -> Tensor:
    r = _split(x)[1]
    if kernel.boxes:
        return 1 + _box_ripple_slope(kernel.boxes, r, T)
    return fourier_series.slope(kernel, read, r, T, _window(kernel, x.dtype)[2])


_WINDOWS = {  # float32, float64: steps summed to each side, largest T at which that is exact, harmonics needed above
    Logistic: ((1, 0.09, 8), (5, 0.2, 8)),
    Normal: ((1, 0.25, 5), (3, 0.35, 5)),
}


def _window(kernel: Kernel, dtype: torch.dtype) -> tuple[int, float, int]:
    if kernel.boxes:
        return 0, 0.5, 0
    return _WINDOWS[type(kernel)][dtype == torch.float64]


def _sawtooth(r: Tensor) -> Tensor:
    """x - round(x), where r = 0 on a step of round."""
    y = r + 0.5
    return y - torch.round(y)


def _box_ripple(boxes: int, r: Tensor, h: Tensor) -> Tensor:
    """E[round(x + h e)] - x for e uniform on (-1, 1), or the mean of two such: differences of antiderivatives."""
    right, left = _sawtooth(r + h), _sawtooth(r - h)
    if boxes == 1:
        return (left**2 - right**2) / (4 * h)
    cubic = [d**3 / 6 - d / 24 for d in (right, _sawtooth(r), left)]
    return -(cubic[0] - 2 * cubic[1] + cubic[2]) / h**2


def _box_ripple_slope(boxes: int, r: Tensor, h: Tensor) -> Tensor:
    right, left = _sawtooth(r + h), _sawtooth(r - h)
    if boxes == 1:
        return (left - right) / (2 * h)
    return -(right**2 - 2 * _sawtooth(r) ** 2 + left**2) / (2 * h**2)
