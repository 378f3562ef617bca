"""Smooth surrogate."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from surrogates.core import Op, in_float32
from surrogates.kernels import KERNELS, KernelName
from surrogates.schedules import ScheduleName
from surrogates.strategies.tempered import Tempered, check_smooth, smooth_knobs


@dataclass(frozen=True)
class Smooth(Tempered):
    """The smooth reading's value and derivative, T following its schedule; always evaluated hard.

    Elementwise ops: the exact expectation E[hard(x + T e)] under `kernel`. Ops over a dim take no kernel, nor do the
    forms of the reading that `form` names.
    """

    kernel: KernelName | None = "logistic"
    schedule: ScheduleName = "exponential"
    final_temperature: float | None = 0.1
    form: str | None = None
    soft_forward: ClassVar[bool] = True

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        kernel = KERNELS[self.kernel] if self.kernel and op.takes_kernel(self.form) else None
        return in_float32(op.reading("smooth", self.form), *x, kernel=kernel, T=T)

    def check(self, op: Op) -> None:
        check_smooth(op, self.kernel, self.form)

    def uses(self, op: Op) -> frozenset[str]:
        return smooth_knobs(op, self.form)
