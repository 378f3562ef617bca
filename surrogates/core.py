"""The base class of strategies, and the names that ops and strategies are built from."""

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
    """Which readings of an op give the value and the derivative.

    The fields are plain numbers and names. Every strategy has `temperature` and `kernel`; a strategy that does not use
    one has None.
    A subclass's own checks come after those of this class.
    Raises ValueError if float32 cannot hold a number.
    """

    temperature: float | None = None
    kernel: KernelName | None = None
    soft_forward: ClassVar[bool] = False  # the value in training is not the hard op's
    estimates: ClassVar[bool] = False  # the derivative is right in the mean over the noise, not in each draw

    def __call__(self, op: Op, *x: Tensor, T: Tensor | float | None = None, noise: Tensor | None = None) -> Tensor:
        """The op on x under this strategy; T defaults to `temperature`.

        `noise` is uniform on (0, 1), of the shape `noise_shape`, and at least float32, as half precision rounds it to 0
        and 1.
        Raises TypeError if an input is not floating.
        Raises ValueError if noise is needed and missing, or of another shape.
        Raises EmptyCell if the op lacks a reading that the strategy needs.
        """
        require_floating(op, *x)
        shape = self.noise_shape(op, *x)
        if shape is not None and (noise is None or noise.shape != shape):
            given = "none" if noise is None else tuple(noise.shape)
            raise ValueError(
                f"{self} on {op} needs noise, a tensor of uniform numbers of shape {shape}; got {given}. "
                f"Give noise=torch.rand({shape}), or use a HardLayer, which draws its own"
            )
        T = self.temperature if T is None else T
        now = block.current_pass()
        if now == "value":
            return op.hard(*detached(x))
        act = self.relaxed if now == "derivative" else self.combine
        return act(op, *x, T=T, noise=noise)

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        """Computes value and derivative from the op's readings."""
        raise NotImplementedError

    def relaxed(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        """The function whose derivatives a straight-through block uses: the carrier, or what `combine` returns."""
        return self.combine(op, *x, T=T, noise=noise)

    def check(self, op: Op) -> None:
        """Raises EmptyCell if the op lacks what this strategy needs."""
        raise NotImplementedError

    def uses(self, op: Op) -> frozenset[str]:
        """Those of the fields `temperature` and `kernel` that affect this op."""
        return frozenset()

    def noisy(self, op: Op) -> bool:
        """Whether the call needs `noise`."""
        return False

    def noise_shape(self, op: Op, *x: Tensor) -> tuple[int, ...] | None:
        """The shape of the uniform numbers that the call needs for these inputs, sample axis first; else None."""
        return tuple(x[0].shape) if self.noisy(op) else None

    def temperature_at(self, progress: float) -> float | None:
        """The temperature at a share of training between 0 and 1."""
        return self.temperature

    def at(self, progress: float) -> Strategy:
        """The strategy that acts at a share of training between 0 and 1; a strategy may turn into another."""
        return self

    @property
    def changes(self) -> bool:
        """Whether the strategy or its temperature at the end of training differs from that at the start."""
        return self.temperature_at(1.0) != self.temperature_at(0.0) or self.at(1.0) != self.at(0.0)

    @property
    def gap_target(self) -> float | None:
        """The soft-to-hard gap above which the temperature falls; None if it does not depend on the gap."""
        return None

    @property
    def by_epoch(self) -> bool:
        """Whether the temperature changes only between epochs."""
        return False


OPS = Catalogue("op", "surrogates.ops", Op, functions=lambda op: op.functions)
STRATEGIES = Catalogue(
    "strategy", "surrogates.strategies", Strategy, is_member=lambda cls: cls.combine is not Strategy.combine
)
