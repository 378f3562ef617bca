"""The core: what an op and a strategy are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from surrogates import block
from surrogates.carriers import detached as detached
from surrogates.carriers import first_order as first_order
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
    subtracts_noise: ClassVar[bool] = False  # over a dim: the smooth reading is under x - T g, g Gumbel
    tempered_proxy: ClassVar[bool] = False  # the proxy depends on T
    linear_in_curves: ClassVar[bool] = False  # proxy, smooth: curves of the inputs, summed; so slopes are enough
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm",)  # what may be chosen at kinks and ties

    def __post_init__(self) -> None:
        constants = {field.name: getattr(self, field.name) for field in fields(self)}
        require_float32(**{name: value for name, value in constants.items() if isinstance(value, float)})

    @property
    def temperature_unit(self) -> float:
        """T = 1 in units of the op's input."""
        return 1.0

    @property
    def grid(self) -> float | None:
        """The distance of neighbouring values, in units of x, of an op with an evenly spaced staircase."""
        return None

    @property
    def inputs(self) -> int:
        """How many tensors the op takes."""
        return len(inspect.signature(self.hard).parameters)

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

    def logits(self, x: Tensor) -> Tensor:
        """Log-probabilities, up to a constant a row, of the choices that the op makes; choices along a last dim.

        With Gumbel noise on them the op is random, and `chosen(one_hot(argmax(logits(x) + noise)))` is its value.
        """
        raise EmptyCell(_undeclared(self, "logits"))

    def chosen(self, one_hot: Tensor) -> Tensor:
        """The op's value for a choice that is given as a one-hot vector along the last dim; linear in it."""
        raise EmptyCell(_undeclared(self, "chosen"))

    @property
    def range(self) -> tuple[float, float] | None:
        """The inputs that the op tells apart, bounds included, None for an op without such a range; others saturate."""
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
    estimates: ClassVar[bool] = False  # the derivative is right in the mean over the noise, not for each draw

    def __call__(self, op: Op, *x: Tensor, T: Tensor | float | None = None, noise: Tensor | None = None) -> Tensor:
        """The op on x under this strategy; T defaults to `temperature`.

        `noise` is uniform on (0, 1), shaped as `noise_shape` says and at least float32: half precision rounds it to 0
        and 1. Raises TypeError for inputs that are not floating, ValueError for noise that is needed and missing or of
        another shape, EmptyCell for a reading the op lacks.
        """
        require_floating(op, *x)
        shape = self.noise_shape(op, *x)
        if shape is not None and (noise is None or noise.shape != shape):
            given = "none" if noise is None else tuple(noise.shape)
            raise ValueError(f"{self} on {op} needs noise, a tensor of uniform numbers of shape {shape}; got {given}")
        T = self.temperature if T is None else T
        if block.running() == "value":
            return op.hard(*detached(x))
        act = self.relaxed if block.running() == "derivative" else self.combine
        return act(op, *x, T=T, noise=noise)

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        """Value and derivative of the op, combined from its readings."""
        raise NotImplementedError

    def relaxed(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        """The function whose derivative is taken in a straight-through block: what `combine` gives, or the carrier."""
        return self.combine(op, *x, T=T, noise=noise)

    def check(self, op: Op) -> None:
        """Raises EmptyCell if the op lacks what this strategy needs."""
        raise NotImplementedError

    def uses(self, op: Op) -> frozenset[str]:
        """Which of the knobs `temperature` and `kernel` have an effect on this op."""
        return frozenset()

    def noisy(self, op: Op) -> bool:
        """Whether the call needs `noise`."""
        return False

    def noise_shape(self, op: Op, *x: Tensor) -> tuple[int, ...] | None:
        """The shape of the uniforms that the call needs for these inputs, sample axis first; None if it needs none."""
        return tuple(x[0].shape) if self.noisy(op) else None

    def temperature_at(self, progress: float) -> float | None:
        """The temperature at a share of training between 0 and 1."""
        return self.temperature

    def at(self, progress: float) -> Strategy:
        """The strategy that acts at a share of training between 0 and 1: this one, unless it turns into another."""
        return self

    @property
    def changes(self) -> bool:
        """Whether it is another strategy, or has another temperature, at the end of training than at its start."""
        return self.temperature_at(1.0) != self.temperature_at(0.0) or self.at(1.0) != self.at(0.0)

    @property
    def gap_target(self) -> float | None:
        """For a temperature that falls only while the soft-to-hard gap is above a target: that target."""
        return None

    @property
    def by_epoch(self) -> bool:
        """Whether the temperature changes between epochs only."""
        return False


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


def without_autocast(method: Callable[..., Any]) -> Callable[..., Any]:
    """A Function's `forward` or `backward` whose products are computed in the precision of their factors."""

    @wraps(method)
    def exact(ctx: Any, tensor: Tensor, *rest: Any) -> Any:
        if not torch.is_autocast_enabled(tensor.device.type):
            return method(ctx, tensor, *rest)
        with torch.autocast(tensor.device.type, enabled=False):
            return method(ctx, tensor, *rest)

    return exact
