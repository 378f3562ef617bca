"""A point where an operation's derivative is a convention, and the measurement there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from surrogates.core import Op
from surrogates.strategies.subgradient import Subgradient

# The first five are the rules of PyTorch's notes on autograd, in their order; docs/kinks.md explains all.
Rule = Literal[
    "differentiable", "minimum norm", "continuity", "undefined", "random", "composition", "op's page", "integers"
]
Outcome = tuple[tuple[float, ...], ...] | str  # the derivative by each input, or NO_GRAPH or RAISES
NO_GRAPH, RAISES = "no graph", "raises"


def _each(*derivatives: float) -> Outcome:
    return (derivatives,)


@dataclass(frozen=True)
class Probe:
    """An operation at a point.

    - `documented`: the outcomes that the rule allows, derivatives of the sum of the outputs by each input; empty if it
      allows anything;
    - `ours`: this library's op, compared at the same inputs under the default subgradient strategy;
    - `value`: whether the value is compared instead of the derivative.
    """

    operation: str
    point: str
    function: Callable[..., Tensor]
    inputs: tuple[tuple[float, ...], ...]
    rule: Rule
    documented: tuple[Outcome, ...]
    ours: Op | None = None
    value: bool = False

    def observed(self) -> Outcome:
        """Measures the installed torch."""
        return observe(self.function, self.inputs, self.value)

    def convention(self) -> Outcome | None:
        """Measures this library's op; None if there is none."""
        op = self.ours
        return None if op is None else observe(lambda *x: Subgradient()(op, *x), self.inputs, self.value)


def probe(
    operation: str,
    point: str,
    function: Callable[..., Tensor],
    x: tuple[float, ...],
    rule: Rule,
    *documented: tuple[float, ...] | str,
    ours: Op | None = None,
    value: bool = False,
) -> Probe:
    """Makes a probe of an operation with one input."""
    outcomes = tuple(o if isinstance(o, str) else _each(*o) for o in documented)
    return Probe(operation, point, function, (x,), rule, outcomes, ours, value)


def observe(function: Callable[..., Tensor], inputs: tuple[tuple[float, ...], ...], value: bool = False) -> Outcome:
    """The derivatives of the sum of the outputs in float32, or NO_GRAPH or RAISES; with `value`, the value."""
    with torch.enable_grad():
        x = [torch.tensor(numbers, dtype=torch.float32, requires_grad=True) for numbers in inputs]
        y = function(*x)
        if value:
            return (_numbers(y),)
        if not y.requires_grad:
            return NO_GRAPH
        try:
            return tuple(_numbers(gradient) for gradient in torch.autograd.grad(y.sum(), x))
        except RuntimeError:
            return RAISES


def _numbers(x: Tensor) -> tuple[float, ...]:
    return tuple(number + 0.0 for number in x.detach().double().reshape(-1).tolist())  # -0 + 0 is 0
