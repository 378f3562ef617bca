"""Proximal quantization."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from surrogates.core import Op, detached, graft, in_float32
from surrogates.kernels import KERNELS
from surrogates.schedules import ScheduleName
from surrogates.strategies.staircase import check_staircase
from surrogates.strategies.tempered import Tempered


@dataclass(frozen=True)
class Proximal(Tempered):
    """y = clamp(c + (x - c) / rho, lo, hi) between neighbouring values lo, hi with the jump at c; derivative x's own.

    PARQ (Jin et al. 2025, arXiv 2503.15748). y is the proximal map of a piecewise-affine regulariser, applied to x as
    an optimizer would apply it to a weight. So the loss's derivative at y goes to x unchanged, through the op's proxy:
    it is 0 outside a quantizer's range.
    rho = T falls from 1, where y = x for round, towards 0, where y is the hard op. The map is E[hard(x + rho step
    U(-1/2, 1/2))], the smooth reading under the uniform kernel.
    This is a strategy and not a form of `rewrite`, because rho is annealed and a rewrite has no temperature.
    Raises ValueError if rho is above 1.
    """

    schedule: ScheduleName = "sigmoid"
    final_temperature: float | None = 0.001
    soft_forward: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("temperature", "final_temperature"):
            value = getattr(self, name)
            if value is not None and value > 1:
                raise ValueError(f"{name} of proximal, its inverse slope rho, must be at most 1, got {value}")

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        assert op.grid is not None
        half = T * (0.5 * op.grid / op.temperature_unit)
        value = in_float32(op.smooth, *detached(x), kernel=KERNELS["uniform"], T=half)
        return graft(value, op.proxy(*x, T=T))

    def check(self, op: Op) -> None:
        check_staircase(op, "proximal")

    def uses(self, op: Op) -> frozenset[str]:
        return frozenset({"temperature"})
