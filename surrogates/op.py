"""The base class of ops: a hard operation and its readings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from surrogates.naming.member import Member

READINGS = ("hard", "subgradient", "proxy", "smooth", "rewrite")


class EmptyCell(ValueError):
    """The op lacks the reading that a strategy needs, so this pair does not exist."""


Method = TypeVar("Method", bound=Callable[..., Tensor])


def rewriting(kind: str, noisy: bool = False) -> Callable[[Method], Method]:
    """Declares a rewrite's kind and whether it needs noise.

    `kind` is `exact`, `exact almost everywhere`, `relaxed` or `changes the objective`.
    """

    def declare(method: Method) -> Method:
        method.kind, method.noisy = kind, noisy  # type: ignore[attr-defined]
        return method

    return declare


@dataclass(frozen=True)
class Op(Member):
    """A hard operation with up to five readings of one signature and one output shape.

    A subclass declares a reading by defining the method. Named forms of a reading are methods with the form's name as a
    suffix (`rewrite_abs`). Strategies that need a reading the op lacks do not apply to it.
    A subclass's own checks come after those of this class.
    Raises ValueError if float32 cannot hold a constant.
    """

    elementwise: ClassVar[bool] = True  # an output depends on the inputs at its place, not on a row
    keeps_shape: ClassVar[bool] = True  # one input, and the output has its shape
    needs_mean: ClassVar[bool] = False  # smooth exists only for kernels with a mean
    subtracts_noise: ClassVar[bool] = False  # over a dim: the smooth reading is that of x - T g, g Gumbel
    tempered_proxy: ClassVar[bool] = False  # the proxy depends on T
    rules: ClassVar[tuple[str, ...]] = ("minimum_norm",)  # the choices at kinks and ties
    functions: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # torch's names with constants; default: the file's name

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if vars(cls).keys() & {"proxy", "smooth"} and "slopes" not in vars(cls):
            cls.slopes = Op.slopes  # type: ignore[method-assign]  # inherited slopes would belong to another function

    @property
    def temperature_unit(self) -> float:
        """T = 1 in units of the op's input."""
        return 1.0

    @property
    def grid(self) -> float | None:
        """The distance between neighbouring values, in units of x; None if they are not evenly spaced."""
        return None

    @property
    def inputs(self) -> int:
        """The number of tensors that the op takes."""
        return len(inspect.signature(self.hard).parameters)

    def hard(self, *args: Any, **kwargs: Any) -> Tensor:
        """The op's value."""
        raise EmptyCell(_undeclared_message(self, "hard"))

    def subgradient(self, *args: Any, **kwargs: Any) -> Tensor:
        """A function with the op's derivative almost everywhere, and `rule`'s choice at kinks and ties."""
        raise EmptyCell(_undeclared_message(self, "subgradient"))

    def proxy(self, *args: Any, **kwargs: Any) -> Tensor:
        """A function with the op's usual straight-through derivative."""
        raise EmptyCell(_undeclared_message(self, "proxy"))

    def smooth(self, *args: Any, **kwargs: Any) -> Tensor:
        """A smooth replacement; for elementwise ops the exact expectation of hard(x + T e)."""
        raise EmptyCell(_undeclared_message(self, "smooth"))

    def slopes(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """The derivatives of the smooth reading by its inputs; with them `ste` need not compute the value."""
        raise EmptyCell(_undeclared_message(self, "slopes"))

    def rewrite(self, *args: Any, **kwargs: Any) -> Tensor:
        """Another computation, without the op."""
        raise EmptyCell(_undeclared_message(self, "rewrite"))

    def logits(self, x: Tensor) -> Tensor:
        """Log-probabilities of the op's choices, up to a constant a row; choices along a last dim.

        With Gumbel noise the op is random, with the value `chosen(one_hot(argmax(logits(x) + noise)))`.
        """
        raise EmptyCell(_undeclared_message(self, "logits"))

    def chosen(self, one_hot: Tensor) -> Tensor:
        """The op's value for a choice, a one-hot vector along the last dim; linear in it."""
        raise EmptyCell(_undeclared_message(self, "chosen"))

    @property
    def range(self) -> tuple[float, float] | None:
        """Bounds beyond which the op's value is constant; None if there are none."""
        return None

    @property
    def continuous(self) -> bool:
        """Whether the op has an exact rewrite, by relu and abs. Then its derivative is not 0 almost everywhere."""
        return getattr(self.rewrite, "kind", None) == "exact"

    def takes_kernel(self, form: str | None = None) -> bool:
        """Whether the smooth reading, or a form of it, takes a kernel; if not, pass `kernel=None`."""
        return self.elementwise and form is None

    def declares(self, reading: str) -> bool:
        """Whether the op has this reading."""
        return getattr(type(self), reading) is not getattr(Op, reading)

    def forms(self, reading: str) -> list[str]:
        """The names of a reading's forms."""
        return [name.removeprefix(f"{reading}_") for name in dir(self) if name.startswith(f"{reading}_")]

    def reading(self, reading: str, form: str | None = None) -> Callable[..., Tensor]:
        """The method of a reading, or of one of its forms.

        Raises EmptyCell if the op does not declare it.
        """
        if not self.declares(reading):
            raise EmptyCell(_undeclared_message(self, reading))
        name = reading if form is None else f"{reading}_{form}"
        if not hasattr(self, name):
            known = ", ".join(["null (the default)", *self.forms(reading)])
            raise EmptyCell(f"{type(self).__name__} has no form '{form}' of its reading '{reading}'; it has: {known}")
        method: Callable[..., Tensor] = getattr(self, name)
        return method


def _undeclared_message(op: Op, reading: str) -> str:
    path = type(op).__module__.replace(".", "/") + ".py"
    return f"{type(op).__name__} declares no reading '{reading}' ({path})"
