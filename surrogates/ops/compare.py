"""The comparison of two tensors."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from surrogates.core import Op, flat
from surrogates.kernels import Kernel
from surrogates.known import known_finite, with_nan
from surrogates.ops.heaviside import Heaviside

RELATIONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq}


@dataclass(frozen=True)
class Compare(Op):
    """compare(a, b) = 1 if a > b, else 0 (`relation`: one of >, >=, <, <=, ==).

    Two tensors of one shape (...), or of shapes that broadcast, elementwise. NaN in either gives NaN, where torch has
    False. An infinity equals itself.
    Jump where a = b, where the derivative is 0 by definition. torch's own comparison has no graph.
    proxy: half of a - b (of b - a for < and <=) where |a - b| <= 1, else constant. For ==: the tent relu(1 - |a - b|),
    derivative 0 at its three kinks.
    smooth: F((a - b) / T) = E[a + T e > b], or F((b - a) / T), every kernel.
    For == the expectation is 0, as the noise is continuous. The reading is a relaxation instead: the kernel's density
    at (a - b) / T divided by that at 0, the limit of P(|a + T e - b| <= d) / P(|T e| <= d) as d -> 0. It is 1 where a =
    b, and tends to the hard value as T -> 0. Logistic kernel: 1 / cosh((a - b) / (2 T))^2; normal: exp(-(a - b)^2 / (2
    T^2)); uniform: a box, with derivative 0.
    Raises ValueError if the relation is unknown.
    """

    relation: Literal[">", ">=", "<", "<=", "=="] = ">"
    keeps_shape: ClassVar[bool] = False
    functions: ClassVar[Mapping[str, Mapping[str, str]]] = {
        function.__name__: {"relation": relation} for relation, function in RELATIONS.items()
    }

    def hard(self, a: Tensor, b: Tensor) -> Tensor:
        holds: Tensor = RELATIONS[self.relation](a.detach(), b.detach())
        return with_nan(holds.to(torch.promote_types(a.dtype, b.dtype)), a, b)

    def subgradient(self, a: Tensor, b: Tensor, rule: str) -> Tensor:
        return flat(a) + flat(b)

    def proxy(self, a: Tensor, b: Tensor, T: Tensor | float) -> Tensor:
        gap = self._gap(a, b)
        return torch.relu(1 - torch.abs(gap)) if self.relation == "==" else Heaviside().proxy(gap, T)

    def smooth(self, a: Tensor, b: Tensor, kernel: Kernel, T: Tensor | float) -> Tensor:
        gap = self._gap(a, b) / T
        equality = self.relation == "=="
        soft = kernel.density(gap) / kernel.density(torch.zeros_like(gap)) if equality else kernel.cdf(gap)
        return torch.where(a.isinf() | b.isinf(), self.hard(a, b), soft)

    def _gap(self, a: Tensor, b: Tensor) -> Tensor:
        """The signed distance to a change of the relation; 0 if a or b is infinite."""
        gap = a - b if known_finite(a, b) else torch.where(a.isinf() | b.isinf(), 0, a - b)
        return -gap if self.relation in ("<", "<=") else gap
