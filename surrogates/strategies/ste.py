"""Straight-through: a hard value with a surrogate derivative."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from surrogates.core import EmptyCell, Op, Strategy, detached, graft, in_float32, passing_between
from surrogates.kernels import KERNELS, Kernel, KernelName
from surrogates.known import dual
from surrogates.staircases.recompute import with_slopes
from surrogates.strategies.tempered import Tempered, check_smooth, smooth_knobs, smooth_reading
from surrogates.torch_private import transforms_active

PROXY_KERNEL = "logistic"  # of the proxies that are smooth readings and declare slopes
CHORD_BELOW = 0.1  # the power carrier is a chord from here to 0, because the power's own slope is infinite at 0


@dataclass(frozen=True)
class StraightThrough(Tempered):
    """The hard value with the derivative of a carrier (Bengio, Leonard & Courville 2013, arXiv 1308.3432).

    `carrier`, the function whose derivative is used:
    - `own`: the op's own proxy, or its form named by `form`;
    - `identity`: x itself;
    - `clipped`: x where |x| <= `width`, else constant;
    - `power`: sign(x) |x|^(1/o), o = `power` >= 1, where 0.1 <= |x| <= `width` (ReSTE, Wu et al. 2023, arXiv
      2308.06689, with width = 1.5). Where |x| < 0.1 it is the chord to 0, where |x| > width constant. Its derivative
      |x|^(1/o - 1) / o is the identity's for o = 1 and tends to the sign's for o -> infinity. With `final_power` the
      power at the share p of training is o(p) = o + (1 - cos(pi p / 2)) (final_power - o). The authors' code has this
      schedule from 1 to 3;
    - `smooth`: the smooth reading under `kernel`, or its form named by `form`. At a jump of 1 its derivative has the
      area 1;
    - `smooth_peak`: the smooth reading under `kernel` times T / F'(0), F' the kernel's density and T in units of x. At
      a jump of 1 its derivative has the peak 1, as in snntorch and in Zenke and Vogels 2021 (Neural Computation 33).
    `temperature` is that of a smooth carrier, or of an own proxy that has one. The forward pass does not depend on it.
    Bi-Real net's ApproxSign (arXiv 1808.00278) is sign with the smooth carrier, kernel triangular, at T = 1.
    Raises ValueError if `width` is not positive, a power is below 1 or infinite, or `final_power` has another carrier.
    """

    carrier: Literal["own", "identity", "clipped", "power", "smooth", "smooth_peak"] = "own"
    width: float = 1.0
    power: float = 2.0
    final_power: float | None = None
    kernel: KernelName | None = "logistic"
    form: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.width > 0:
            raise ValueError(f"width must be positive, got {self.width}")
        for name, power in (("power", self.power), ("final_power", self.final_power)):
            if power is not None and not 1 <= power < math.inf:
                raise ValueError(f"{name} must be at least 1 and finite, got {power}")
        if self.final_power is not None and self.carrier != "power":
            raise ValueError(f"final_power needs carrier=power, got carrier={self.carrier}")

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        value, kernel = op.hard(*detached(x)), self._kernel_of_slopes(op)
        if kernel is None or _needs_graph(x, T):
            return graft(value, self.relaxed(op, *x, T=T, noise=noise))
        return with_slopes(value, partial(op.slopes, kernel=kernel), T, *x)

    def _kernel_of_slopes(self, op: Op) -> Kernel | None:
        """The kernel, if the op declares the carrier's slopes, so that the carrier need not be computed; else None."""
        if self.form is not None or not op.declares("slopes"):
            return None
        if self.carrier == "smooth":
            return KERNELS.get(self.kernel or "")
        return KERNELS[PROXY_KERNEL] if self.carrier == "own" and op.tempered_proxy else None

    def relaxed(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        if self.carrier == "identity":
            return x[0]
        if self.carrier == "clipped":
            return passing_between(x[0], -self.width, self.width)
        if self.carrier == "power":
            return in_float32(_power, x[0], width=self.width, exponent=1 / self.power)
        if self.carrier == "smooth":
            return smooth_reading(op, *x, kernel=self.kernel, T=T, form=self.form)
        if self.carrier == "smooth_peak":
            assert self.kernel is not None
            return smooth_reading(op, *x, kernel=self.kernel, T=T).mul(
                T * op.temperature_unit / KERNELS[self.kernel].peak
            )
        proxy = op.reading("proxy", self.form)
        return in_float32(proxy, *x, T=T) if op.tempered_proxy else proxy(*x, T=T)

    def at(self, progress: float) -> Strategy:
        if self.final_power is None:
            return self
        share = 1 - math.cos(0.5 * math.pi * progress)
        return replace(self, power=(1 - share) * self.power + share * self.final_power, final_power=None)

    def check(self, op: Op) -> None:
        if self.carrier == "own":
            op.reading("proxy", self.form)
        elif self.carrier == "smooth":
            check_smooth(op, self.kernel, self.form)
        elif self.form is not None:
            raise EmptyCell(f"carrier '{self.carrier}' has no forms; form={self.form} needs carrier 'own' or 'smooth'")
        elif not op.keeps_shape:
            raise EmptyCell(
                f"carrier '{self.carrier}' needs an op whose output has the shape of its one input, "
                f"not {type(op).__name__}; use carrier 'own' or 'smooth'"
            )
        elif self.carrier == "smooth_peak":
            check_smooth(op, self.kernel)
            if op.continuous or not op.takes_kernel():
                needed = "an elementwise op that jumps"
                raise EmptyCell(f"carrier 'smooth_peak' needs {needed}, not {type(op).__name__}; use 'smooth'")

    def uses(self, op: Op) -> frozenset[str]:
        if self.carrier in ("smooth", "smooth_peak"):
            return smooth_knobs(op, self.form)
        return frozenset({"temperature"} if self.carrier == "own" and op.tempered_proxy else ())


def _needs_graph(x: tuple[Tensor, ...], T: Any) -> bool:
    """Whether autograd must see the carrier: under a compiler, torch.func or forward mode, or for a derivative by T."""
    if torch.compiler.is_compiling() or transforms_active() or dual(*x):
        return True
    return isinstance(T, Tensor) and (T.requires_grad or dual(T))


def _power(x: Tensor, width: float, exponent: float) -> Tensor:
    inside = torch.where(x.abs() <= width, x, 0)
    magnitude = torch.where(inside.abs() < CHORD_BELOW, CHORD_BELOW, inside.abs())
    return inside * magnitude ** (exponent - 1)
