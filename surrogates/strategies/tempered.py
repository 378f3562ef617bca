"""The base of strategies with a temperature: its schedule and the choice of a kernel."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from surrogates.core import EmptyCell, Op, Strategy, in_float32
from surrogates.kernels import KERNELS
from surrogates.schedules import SCHEDULES, ScheduleName, require_temperature


@dataclass(frozen=True)
class Tempered(Strategy):
    """A strategy whose temperature follows a schedule from `temperature` to the floor `final_temperature`.

    Raises ValueError if a temperature is not positive and finite, or a schedule lacks `final_temperature`.
    """

    temperature: float | None = 1.0
    schedule: ScheduleName = "constant"
    final_temperature: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_temperature("temperature", self.temperature)
        if self.final_temperature is not None:
            require_temperature("final_temperature", self.final_temperature)
        if self.schedule != "constant" and self.final_temperature is None:
            raise ValueError(f"schedule={self.schedule} needs final_temperature, the positive temperature at its end")

    def temperature_at(self, progress: float) -> float:
        """The scheduled temperature at a share of training."""
        assert self.temperature is not None
        end = self.temperature if self.final_temperature is None else self.final_temperature
        return SCHEDULES[self.schedule](self.temperature, end)(progress)


def check_smooth(op: Op, kernel: str | None, form: str | None = None) -> None:
    """Raises EmptyCell if the op has no smooth reading, not this form of it, or none under this kernel."""
    op.reading("smooth", form)
    if not op.takes_kernel(form):
        return
    if kernel not in KERNELS:
        raise EmptyCell(f"the smooth reading of {type(op).__name__} needs a kernel, one of: {', '.join(KERNELS)}")
    require_mean(op, kernel)


def require_mean(op: Op, kernel: str) -> None:
    """Raises EmptyCell if the op is unbounded and the kernel has no mean: hard(x + T e) has no expectation then."""
    if op.needs_mean and not KERNELS[kernel].has_mean:
        usable = ", ".join(name for name, law in KERNELS.items() if law.has_mean)
        raise EmptyCell(f"{type(op).__name__} is unbounded and kernel '{kernel}' has no mean; use {usable}")


def smooth_knobs(op: Op, form: str | None = None) -> frozenset[str]:
    """Those of the fields `temperature` and `kernel` that a smooth reading of this op uses."""
    return frozenset({"temperature", "kernel"} if op.takes_kernel(form) else {"temperature"})


def smooth_reading(op: Op, *x: Tensor, kernel: str | None, T: Any, form: str | None = None) -> Tensor:
    """The op's smooth reading or a form of it, under the named kernel if it takes one; computed in float32 at least."""
    law = KERNELS[kernel] if kernel and op.takes_kernel(form) else None
    return in_float32(op.reading("smooth", form), *x, kernel=law, T=T)
