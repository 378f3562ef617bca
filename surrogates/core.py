"""The core: what a strategy is, and the names that ops and strategies are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from surrogates import block
from surrogates.carriers import detached, flat, passing, passing_between
from surrogates.float32 import in_float32, require_floating
from surrogates.graft import graft
from surrogates.naming.catalogue import Catalogue
from surrogates.naming.member import Member
from surrogates.op import READINGS, EmptyCell, Op, rewriting

__all__ = [
    "OPS", "READINGS", "STRATEGIES", "EmptyCell", "KernelName", "Op", "Strategy", "detached", "flat", "graft",
    "in_float32", "passing", "passing_between", "rewriting",
]  # fmt: skip

KernelName = Literal["logistic", "normal", "uniform", "triangular", "cauchy", "fast_sigmoid"]


@dataclass(frozen=True)
class Strategy(Member):
    """Which readings of an op give the value and the derivative; plain numbers and names, one call.

    Every strategy has the knobs `temperature` and `kernel`; one that it does not use is None.
    Raises ValueError for a number that float32 cannot hold; a subclass's own checks come after that one.
    """

    temperature: float | None = None
    kernel: KernelName | None = None
    soft_forward: ClassVar[bool] = False  # trains on another value than the hard op's
    estimates: ClassVar[bool] = False  # the derivative is right in the mean over the noise, not for each draw

    def __call__(self, op: Op, *x: Tensor, T: Tensor | float | None = None, noise: Tensor | None = None) -> Tensor:
        """The op on x under this strategy; T defaults to `temperature`.

        `noise` is uniform on (0, 1), shaped as `noise_shape` says and at least float32: half precision rounds it to 0
        and 1. Raises TypeError for inputs that are not floating, ValueError for noise that is needed and missing or of
        another shape, EmptyCell for a reading the op lacks.
        """
        require_floating(op, *x)
        shape = self.noise_shape(op, *x)
        if shape is not None and (noise is None or noise.shape != shape):
            given = "none" if noise is None else tuple(noise.shape)
            raise ValueError(f"{self} on {op} needs noise, a tensor of uniform numbers of shape {shape}; got {given}")
        T = self.temperature if T is None else T
        if block.current_pass() == "value":
            return op.hard(*detached(x))
        act = self.relaxed if block.current_pass() == "derivative" else self.combine
        return act(op, *x, T=T, noise=noise)

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        """Value and derivative of the op, combined from its readings."""
        raise NotImplementedError

    def relaxed(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        """The function whose derivatives a straight-through block has: what `combine` gives, or the carrier."""
        return self.combine(op, *x, T=T, noise=noise)

    def check(self, op: Op) -> None:
        """Raises EmptyCell if the op lacks what this strategy needs."""
        raise NotImplementedError

    def uses(self, op: Op) -> frozenset[str]:
        """Which of the knobs `temperature` and `kernel` have an effect on this op."""
        return frozenset()

    def noisy(self, op: Op) -> bool:
        """Whether the call needs `noise`."""
        return False

    def noise_shape(self, op: Op, *x: Tensor) -> tuple[int, ...] | None:
        """The shape of the uniforms that the call needs for these inputs, sample axis first; None if it needs none."""
        return tuple(x[0].shape) if self.noisy(op) else None

    def temperature_at(self, progress: float) -> float | None:
        """The temperature at a share of training between 0 and 1."""
        return self.temperature

    def at(self, progress: float) -> Strategy:
        """The strategy that acts at a share of training between 0 and 1: this one, unless it turns into another."""
        return self

    @property
    def changes(self) -> bool:
        """Whether it is another strategy, or has another temperature, at the end of training than at its start."""
        return self.temperature_at(1.0) != self.temperature_at(0.0) or self.at(1.0) != self.at(0.0)

    @property
    def gap_target(self) -> float | None:
        """For a temperature that falls only while the soft-to-hard gap is above a target: that target."""
        return None

    @property
    def by_epoch(self) -> bool:
        """Whether the temperature changes between epochs only."""
        return False


OPS = Catalogue("op", "surrogates.ops", Op)
STRATEGIES = Catalogue(
    "strategy", "surrogates.strategies", Strategy, is_member=lambda cls: cls.combine is not Strategy.combine
)
