"""Smooth: the op's smooth reading while training."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from surrogates.core import Op, Strategy
from surrogates.kernels import KernelName
from surrogates.schedules import ScheduleName
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.tempered import Tempered, check_smooth, smooth_knobs, smooth_reading


@dataclass(frozen=True)
class Smooth(Tempered):
    """The smooth reading's value and derivative, T following its schedule; always evaluated hard.

    Elementwise ops: the exact expectation E[hard(x + T e)] under `kernel`. Ops over a dim and the forms named by `form`
    take no kernel.

    `clock` chooses when the schedule advances:
    - `step`: at every step;
    - `epoch`: between epochs only;
    - `gap`: at every step whose soft value is further than `gap` from the hard one, so that T falls no further than
      needed. The distance is mean |soft - hard| over a batch, in units of the op's output.
    During the last `hard_share` of training the value is the hard one, with the smooth reading's derivative at the
    temperature reached. The schedule ends where that share begins.
    Raises ValueError if the share is outside [0, 1) or the gap is not positive.
    """

    kernel: KernelName | None = "logistic"
    schedule: ScheduleName = "exponential"
    final_temperature: float | None = 0.1
    form: str | None = None
    clock: Literal["step", "epoch", "gap"] = "step"
    gap: float = 0.05
    hard_share: float = 0.0
    soft_forward: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.hard_share < 1:
            raise ValueError(f"hard_share must be at least 0 and below 1, got {self.hard_share}")
        if not self.gap > 0:
            raise ValueError(f"gap must be positive, got {self.gap}")

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        return smooth_reading(op, *x, kernel=self.kernel, T=T, form=self.form)

    def check(self, op: Op) -> None:
        check_smooth(op, self.kernel, self.form)

    def uses(self, op: Op) -> frozenset[str]:
        return smooth_knobs(op, self.form)

    def temperature_at(self, progress: float) -> float:
        return super().temperature_at(progress / (1 - self.hard_share))

    def at(self, progress: float) -> Strategy:
        if not self.hard_share or progress < 1 - self.hard_share:
            return self
        return StraightThrough(self.temperature, carrier="smooth", kernel=self.kernel, form=self.form)

    @property
    def gap_target(self) -> float | None:
        return self.gap if self.clock == "gap" else None

    @property
    def by_epoch(self) -> bool:
        return self.clock == "epoch"
