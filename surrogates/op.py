"""What an op is: a hard operation and its readings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from surrogates.naming.member import Member

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
class Op(Member):
    """A hard operation with up to five readings of one signature and one output shape.

    A subclass declares a reading by defining the method; further named forms of a reading are methods with the
    form's name as a suffix (`rewrite_abs`). Without a reading, pairs with the strategies that need it do not exist.
    Raises ValueError for a constant that float32 cannot hold; a subclass's own checks come after that one.
    """

    elementwise: ClassVar[bool] = True  # an output depends on the inputs at its own place, not on a row of them
    keeps_shape: ClassVar[bool] = True  # one input, and an output of its shape
    needs_mean: ClassVar[bool] = False  # smooth exists only for kernels with a mean
    subtracts_noise: ClassVar[bool] = False  # over a dim: the smooth reading is under x - T g, g Gumbel
    tempered_proxy: ClassVar[bool] = False  # the proxy depends on T
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm",)  # what may be chosen at kinks and ties
    functions: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # torch's names, with constants; else the file's

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if vars(cls).keys() & {"proxy", "smooth"} and "slopes" not in vars(cls):
            cls.slopes = Op.slopes  # type: ignore[method-assign]  # inherited ones would be those of another function

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
        raise EmptyCell(_undeclared_message(self, "hard"))

    def subgradient(self, *args: Any, **kwargs: Any) -> Tensor:
        """A function whose derivative is the op's almost everywhere, and `rule`'s choice at kinks and ties."""
        raise EmptyCell(_undeclared_message(self, "subgradient"))

    def proxy(self, *args: Any, **kwargs: Any) -> Tensor:
        """A function whose derivative is the op's usual straight-through derivative."""
        raise EmptyCell(_undeclared_message(self, "proxy"))

    def smooth(self, *args: Any, **kwargs: Any) -> Tensor:
        """A smooth stand-in; for elementwise ops the exact expectation of hard(x + T e)."""
        raise EmptyCell(_undeclared_message(self, "smooth"))

    def slopes(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """The derivatives of the smooth reading by its inputs; where they are declared, `ste` computes no value."""
        raise EmptyCell(_undeclared_message(self, "slopes"))

    def rewrite(self, *args: Any, **kwargs: Any) -> Tensor:
        """Another computation, in which the op is gone."""
        raise EmptyCell(_undeclared_message(self, "rewrite"))

    def logits(self, x: Tensor) -> Tensor:
        """Log-probabilities, up to a constant a row, of the choices that the op makes; choices along a last dim.

        With Gumbel noise on them the op is random, and `chosen(one_hot(argmax(logits(x) + noise)))` is its value.
        """
        raise EmptyCell(_undeclared_message(self, "logits"))

    def chosen(self, one_hot: Tensor) -> Tensor:
        """The op's value for a choice that is given as a one-hot vector along the last dim; linear in it."""
        raise EmptyCell(_undeclared_message(self, "chosen"))

    @property
    def range(self) -> tuple[float, float] | None:
        """Bounds beyond which the op's value is constant; None for an op without such bounds."""
        return None

    def takes_kernel(self, form: str | None = None) -> bool:
        """Whether the smooth reading, or a named form of it, takes a kernel; if not, `kernel` is None."""
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
            raise EmptyCell(_undeclared_message(self, reading))
        name = reading if form is None else f"{reading}_{form}"
        if not hasattr(self, name):
            known = ", ".join(["null", *self.forms(reading)])
            raise EmptyCell(f"{type(self).__name__} has no form '{form}' of its reading '{reading}'; it has: {known}")
        method: Callable[..., Tensor] = getattr(self, name)
        return method


def _undeclared_message(op: Op, reading: str) -> str:
    path = type(op).__module__.replace(".", "/") + ".py"
    return f"{type(op).__name__} declares no reading '{reading}' ({path})"
