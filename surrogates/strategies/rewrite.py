"""Rewrite: another computation in place of the op."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from surrogates.core import Op, Strategy, in_float32


@dataclass(frozen=True)
class Rewrite(Strategy):
    """The value and derivative of another computation: the op's default rewrite, or the one named by `form`.

    `kind` tells whether a rewrite is exact, exact almost everywhere, relaxed, or changes the objective.
    """

    form: str | None = None
    soft_forward: ClassVar[bool] = True

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        return in_float32(op.reading("rewrite", self.form), *x, noise=noise)

    def check(self, op: Op) -> None:
        op.reading("rewrite", self.form)

    def noisy(self, op: Op) -> bool:
        return bool(op.reading("rewrite", self.form).noisy)  # type: ignore[attr-defined]

    def kind(self, op: Op) -> str:
        """How the op's rewrite relates to the op: one of the four kinds."""
        return str(op.reading("rewrite", self.form).kind)  # type: ignore[attr-defined]
