"""The core: what an op and a strategy are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from surrogates.carriers import detached as detached
from surrogates.carriers import flat as flat
from surrogates.carriers import graft as graft
from surrogates.carriers import passing as passing
from surrogates.carriers import passing_between as passing_between
from surrogates.float32 import require_float32

READINGS = ("hard", "subgradient", "proxy", "smooth", "rewrite")


class EmptyCell(ValueError):
    """An op does not declare the reading that a strategy needs: this pair does not exist."""


Method = TypeVar("Method", bound=Callable[..., Tensor])


def rewriting(kind: str, noisy: bool = False) -> Callable[[Method], Method]:
    """Declares a rewrite's kind (exact, exact almost everywhere, relaxed, changes the objective) and need of noise."""

    def declare(method: Method) -> Method:
        method.kind, method.noisy = kind, noisy  # type: ignore[attr-defined]
        return method

    return declare


@dataclass(frozen=True)
class Op:
    """A hard operation with up to five readings of one signature and one output shape.

    A subclass declares a reading by defining the method; further named forms of a reading are methods with the
    form's name as a suffix (`rewrite_abs`). What is not defined is an empty cell.
    Raises ValueError for a constant that float32 cannot hold; a subclass's own checks come after that one.
    """

    elementwise: ClassVar[bool] = True  # an output depends on the inputs at its own place, not on a row of them
    keeps_shape: ClassVar[bool] = True  # one input, and an output of its shape
    needs_mean: ClassVar[bool] = False  # smooth exists only for kernels with a mean
    tempered_proxy: ClassVar[bool] = False  # the proxy depends on T
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm",)  # what may be chosen at kinks and ties

    def __post_init__(self) -> None:
        constants = {field.name: getattr(self, field.name) for field in fields(self)}
        require_float32(**{name: value for name, value in constants.items() if isinstance(value, float)})

    @property
    def temperature_unit(self) -> float:
        """T = 1 in units of the op's input."""
        return 1.0

    def hard(self, *args: Any, **kwargs: Any) -> Tensor:
        """The value itself."""
        raise EmptyCell(_undeclared(self, "hard"))

    def subgradient(self, *args: Any, **kwargs: Any) -> Tensor:
        """A function whose derivative is the op's almost everywhere, and `rule`'s choice at kinks and ties."""
        raise EmptyCell(_undeclared(self, "subgradient"))

    def proxy(self, *args: Any, **kwargs: Any) -> Tensor:
        """A function whose derivative is the op's usual straight-through derivative."""
        raise EmptyCell(_undeclared(self, "proxy"))

    def smooth(self, *args: Any, **kwargs: Any) -> Tensor:
        """A smooth stand-in; for elementwise ops the exact expectation of hard(x + T e)."""
        raise EmptyCell(_undeclared(self, "smooth"))

    def rewrite(self, *args: Any, **kwargs: Any) -> Tensor:
        """Another computation, in which the op is gone."""
        raise EmptyCell(_undeclared(self, "rewrite"))

    def saturated(self, x: Tensor) -> Tensor | None:
        """Where x lies outside the op's range, None for an op without one."""
        return None

    def takes_kernel(self, form: str | None = None) -> bool:
        """Whether the smooth reading, or a named form of it, is one under a kernel; if not, `kernel` is None."""
        return self.elementwise and form is None

    def declares(self, reading: str) -> bool:
        """Whether the op has this reading."""
        return getattr(type(self), reading) is not getattr(Op, reading)

    def forms(self, reading: str) -> list[str]:
        """The names of the further forms of a reading."""
        return [name.removeprefix(f"{reading}_") for name in dir(self) if name.startswith(f"{reading}_")]

    def reading(self, reading: str, form: str | None = None) -> Callable[..., Tensor]:
        """The method of a reading, or of one of its named forms; EmptyCell if it is not declared."""
        if not self.declares(reading):
            raise EmptyCell(_undeclared(self, reading))
        name = reading if form is None else f"{reading}_{form}"
        if not hasattr(self, name):
            known = ", ".join(["null", *self.forms(reading)])
            raise EmptyCell(f"{type(self).__name__} has no form '{form}' of its reading '{reading}'; it has: {known}")
        method: Callable[..., Tensor] = getattr(self, name)
        return method


def _undeclared(op: Op, reading: str) -> str:
    path = type(op).__module__.replace(".", "/") + ".py"
    return f"{type(op).__name__} declares no reading '{reading}' ({path})"


@dataclass(frozen=True)
class Strategy:
    """Which readings of an op give the value and the derivative; plain numbers and names, one call.

    Every strategy has the knobs `temperature` and `kernel`; one that it does not use is None.
    """

    temperature: float | None = None
    kernel: str | None = None
    soft_forward: ClassVar[bool] = False  # trains on another value than the hard op's

    def __call__(self, op: Op, *x: Tensor, T: Tensor | float | None = None, noise: Tensor | None = None) -> Tensor:
        """The op on x under this strategy; T defaults to `temperature`.

        `noise` is uniform on (0, 1), shaped as x[0] and at least float32: half precision rounds it to 0 and 1.
        Raises TypeError for inputs that are not floating, ValueError for noise that is needed and missing, EmptyCell
        for a reading the op lacks.
        """
        require_floating(op, *x)
        if noise is None and self.noisy(op):
            raise ValueError(f"{self} on {op} needs noise, a tensor of uniform numbers of shape {tuple(x[0].shape)}")
        return self.combine(op, *x, T=self.temperature if T is None else T, noise=noise)

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        """Value and derivative of the op, combined from its readings."""
        raise NotImplementedError

    def check(self, op: Op) -> None:
        """Raises EmptyCell if the op lacks what this strategy needs."""
        raise NotImplementedError

    def uses(self, op: Op) -> frozenset[str]:
        """Which of the knobs `temperature` and `kernel` have an effect on this op."""
        return frozenset()

    def noisy(self, op: Op) -> bool:
        """Whether the call needs `noise`."""
        return False

    def temperature_at(self, progress: float) -> float | None:
        """The temperature at a share of training between 0 and 1."""
        return self.temperature


def require_floating(op: Op, *x: Tensor) -> None:
    """Raises TypeError naming the op if an input is not a floating tensor."""
    for tensor in x:
        if not tensor.is_floating_point():
            raise TypeError(f"{type(op).__name__} needs floating inputs, got {tensor.dtype}; convert with x.float()")


def in_float32(function: Callable[..., Tensor], *x: Tensor, **kwargs: Any) -> Tensor:
    """`function` of x, computed in float32 if x is of lower precision, returned in x's dtype."""
    dtype = x[0].dtype
    if dtype in (torch.float64, torch.float32):
        return function(*x, **kwargs).to(dtype)
    return function(*(tensor.float() for tensor in x), **kwargs).to(dtype)
