"""The base of strategies that average over several draws of noise."""

from dataclasses import dataclass
from typing import ClassVar

from surrogates.core import Op
from surrogates.float32 import require_count
from surrogates.strategies.tempered import Tempered


@dataclass(frozen=True)
class Averaged(Tempered):
    """An estimator that averages over `samples` draws of noise.

    Raises ValueError if `samples` is not a whole number of at least 1.
    """

    samples: int = 8
    soft_forward: ClassVar[bool] = True
    estimates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count(samples=self.samples)

    def noisy(self, op: Op) -> bool:
        return True
