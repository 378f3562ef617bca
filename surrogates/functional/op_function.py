"""Functions made from the files of ops."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from surrogates.core import OPS, STRATEGIES, Op, Strategy
from surrogates.naming.words import did_you_mean


class OpFunction:
    """An op as a function: `round(x, "ste")`, `maximum(a, b, Smooth())`, `quantize(x, "ste", bits=2)`.

    The arguments are the op's tensors, the strategy as an object or (with default values) by name, and the op's
    constants by name. `T` is the temperature, by default the strategy's own. `noise` is the uniform numbers on (0, 1)
    for strategies with noise. A function has no evaluation mode: the strategy always acts.
    Under torch.compile give the strategy as an object, as a name breaks the graph.
    Raises TypeError if the strategy is missing.
    Raises what the op and the strategy raise.
    """

    def __init__(self, name: str, op: type[Op], constants: Mapping[str, Any]) -> None:
        self.op, self.constants = op, constants
        self.inputs = list(inspect.signature(op.hard).parameters)[1:]  # without `self`
        self.__name__ = self.__qualname__ = name
        self.__doc__ = op.__doc__

    def __call__(
        self,
        *tensors_and_strategy: Tensor | Strategy | str,
        T: Tensor | float | None = None,
        noise: Tensor | None = None,
        **constants: Any,
    ) -> Tensor:
        """The op on the tensors, under the strategy."""
        *x, strategy = tensors_and_strategy or (None,)
        op = self.op(**self.constants, **constants)
        tensors = [tensor for tensor in x if isinstance(tensor, Tensor)]
        if isinstance(strategy, Tensor) or strategy is None or not len(tensors) == len(x) == len(self.inputs):
            names = ", ".join(self.inputs)
            raise TypeError(f"{self.__name__} takes {names} and a strategy: {self.__name__}({names}, 'ste')")
        return STRATEGIES.make(strategy)(op, *tensors, T=T, noise=noise)

    def __repr__(self) -> str:
        return f"<function {self.__name__} of {self.op.__module__}>"


def function_names() -> list[str]:
    """The names of all functions. Imports every op."""
    return sorted(name for stem, op in OPS.classes.items() for name in _functions(stem, op))


def function(module: str, name: str) -> OpFunction:
    """The function of a name, for the `__getattr__` of `module`.

    Imports the file of that name first, and the others only if it does not have the function.
    Raises AttributeError, which names `module`, if there is no such function.
    """
    for stem in () if name.startswith("_") else sorted(OPS.stems, key=lambda stem: stem != name):
        op = OPS.find(stem)
        constants = _functions(stem, op).get(name)
        if constants is not None:
            return OpFunction(name, op, constants)
    hint = "" if name.startswith("_") else _hint(name)
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def _hint(name: str) -> str:
    if name not in OPS.stems:
        return did_you_mean(name, function_names())
    names = " or ".join(repr(function) for function in OPS.find(name).functions)
    return f"; did you mean {names}, of the op {name!r}?"


def _functions(stem: str, op: type[Op]) -> Mapping[str, Mapping[str, Any]]:
    return op.functions or {stem: {}}
