"""E[floor(x + 1/2 + T e)], the smooth round: at small T a window of steps, at larger T a series or closed form."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from surrogates.kernels import Kernel, Logistic, Normal
from surrogates.known import number_like, readable
from surrogates.staircases import fourier_series
from surrogates.staircases.boxes import box_ripple, box_ripple_slope
from surrogates.staircases.recompute import Curve, recompute

Part = Callable[[Kernel, float | None, Tensor, Tensor], Tensor]


def unbounded_stairs(x: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
    """E[floor(x + 1/2 + T e)], value and slope, for every T and every magnitude of x.

    A window of neighbouring steps is exact at small T, its Fourier series at larger T (Poisson summation). In float32
    the two agree to 1e-6 where they meet. Compact kernels have a closed form instead of the series.
    """
    read = readable(T)
    value, slope = (_curve(*parts, kernel, read) for parts in (VALUE, SLOPE))
    return recompute(x, T, value, slope)


def unbounded_slope(x: Tensor, kernel: Kernel, T: Tensor) -> Tensor:
    """The derivative of `unbounded_stairs` by x."""
    return _curve(*SLOPE, kernel, readable(T))(x, T)


def tanh_stairs(x: Tensor, a: Tensor | float) -> Tensor:
    """floor(x) + 1/2 + tanh(a r) / (2 tanh(a / 2)), r = x - floor(x) - 1/2: a soft round, not an expectation."""
    n, r = _split(x)
    end = torch.tanh(0.5 * number_like(x, a))
    return n + (0.5 + torch.tanh(a * r) / (2 * end))


def _curve(near: Part, far: Part, kernel: Kernel, read: float | None) -> Curve:
    """The window's sum up to its largest T, the series beyond; both are computed where T could not be read."""

    def curve(x: Tensor, T: Tensor) -> Tensor:
        limit = _window(kernel, x.dtype)[1]
        if read is not None:
            return (near if read <= limit else far)(kernel, read, x, T)
        return torch.where(limit >= T, near(kernel, read, x, T), far(kernel, read, x, T))

    return curve


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    """floor(x) and the offset r in [-1/2, 1/2) from the step in between; r = 0 if x is infinite."""
    n = torch.floor(x)
    return n, torch.nan_to_num(x - n, nan=0.5) - 0.5


def _near_value(kernel: Kernel, read: float | None, x: Tensor, T: Tensor) -> Tensor:
    n, r = _split(x)
    u = r / T
    near = kernel.cdf(u)
    for k in range(1, _window(kernel, x.dtype)[0] + 1):
        near = near + kernel.cdf(u - k / T) - kernel.cdf(-k / T - u)
    return n + near


def _near_slope(kernel: Kernel, read: float | None, x: Tensor, T: Tensor) -> Tensor:
    u = _split(x)[1] / T
    near = kernel.density(u)
    for k in range(1, _window(kernel, x.dtype)[0] + 1):
        near = near + kernel.density(u - k / T) + kernel.density(u + k / T)
    return near / T


def _far_value(kernel: Kernel, read: float | None, x: Tensor, T: Tensor) -> Tensor:
    n, r = _split(x)
    if kernel.boxes:
        ripple = box_ripple(kernel.boxes, r, T)
    else:
        ripple = fourier_series.ripple(kernel, read, r, T, _window(kernel, x.dtype)[2])
    return n + (r + (ripple + 0.5))


def _far_slope(kernel: Kernel, read: float | None, x: Tensor, T: Tensor) -> Tensor:
    r = _split(x)[1]
    if kernel.boxes:
        return 1 + box_ripple_slope(kernel.boxes, r, T)
    return fourier_series.slope(kernel, read, r, T, _window(kernel, x.dtype)[2])


VALUE, SLOPE = (_near_value, _far_value), (_near_slope, _far_slope)
_WINDOWS = {  # float32, float64: steps summed on each side, largest T at which they are exact, harmonics above it
    Logistic: ((1, 0.09, 8), (5, 0.2, 8)),
    Normal: ((1, 0.25, 5), (3, 0.35, 5)),
}


def _window(kernel: Kernel, dtype: torch.dtype) -> tuple[int, float, int]:
    if kernel.boxes:
        return 0, 0.5, 0
    return _WINDOWS[type(kernel)][dtype == torch.float64]
