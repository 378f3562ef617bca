"""Straight-through."""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from surrogates.core import EmptyCell, Op, detached, graft, in_float32, passing_between
from surrogates.float32 import require_float32
from surrogates.kernels import KERNELS, KernelName
from surrogates.strategies.tempered import Tempered, check_smooth, smooth_knobs


@dataclass(frozen=True)
class StraightThrough(Tempered):
    """The hard value with the derivative of a carrier (Bengio, Leonard & Courville 2013, arXiv 1308.3432).

    `carrier`: `own`, the op's own proxy; `identity`, x itself; `clipped`, x where |x| <= `width`; `smooth`, the smooth
    reading under `kernel`. `form` names another form of that proxy or of that smooth reading. `temperature` is that of
    the smooth carrier, or of an own proxy that has one.
    """

    carrier: Literal["own", "identity", "clipped", "smooth"] = "own"
    width: float = 1.0
    kernel: KernelName | None = "logistic"
    form: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.width > 0:
            raise ValueError(f"width must be positive, got {self.width}")
        require_float32(width=self.width)

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        return graft(op.hard(*detached(x)), self.carry(op, *x, T=T))

    def carry(self, op: Op, *x: Tensor, T: Any) -> Tensor:
        """The tensor whose derivative is taken."""
        if self.carrier == "identity":
            return x[0]
        if self.carrier == "clipped":
            return passing_between(x[0], -self.width, self.width)
        if self.carrier == "smooth":
            kernel = KERNELS[self.kernel] if self.kernel and op.takes_kernel(self.form) else None
            return in_float32(op.reading("smooth", self.form), *x, kernel=kernel, T=T)
        proxy = op.reading("proxy", self.form)
        return in_float32(proxy, *x, T=T) if op.tempered_proxy else proxy(*x, T=T)

    def check(self, op: Op) -> None:
        if self.carrier == "own":
            op.reading("proxy", self.form)
        elif self.carrier == "smooth":
            check_smooth(op, self.kernel, self.form)
        elif self.form is not None:
            raise EmptyCell(f"carrier '{self.carrier}' has no forms, form={self.form} belongs to 'own' or 'smooth'")
        elif not op.keeps_shape:
            raise EmptyCell(
                f"carrier '{self.carrier}' needs an op that keeps its one input's shape, not {type(op).__name__}"
            )

    def uses(self, op: Op) -> frozenset[str]:
        if self.carrier == "smooth":
            return smooth_knobs(op, self.form)
        return frozenset({"temperature"} if self.carrier == "own" and op.tempered_proxy else ())
