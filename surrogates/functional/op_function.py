"""A function made from an op's file."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from surrogates.core import OPS, STRATEGIES, Op, Strategy
from surrogates.naming.words import did_you_mean


class OpFunction:
    """An op as a function: `round(x, "ste")`, `maximum(a, b, Smooth())`, `quantize(x, "ste", bits=2)`.

    First the op's tensors, then the strategy, as an object or, with default values, by name; the op's constants by
    name. `T` is the temperature, by default the strategy's own; `noise` is what strategies with noise need, uniform
    numbers on (0, 1). A function has no evaluation mode: the strategy always acts.
    In code that torch.compile sees give the strategy as an object; a name breaks the graph.
    Raises what the op and the strategy raise, TypeError for a missing strategy.
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
    """The names of all functions; imports every op."""
    return sorted(name for stem, op in OPS.classes.items() for name in _functions(stem, op))


def function(module: str, name: str) -> OpFunction:
    """The function of a name, for the `__getattr__` of `module`, which the message of AttributeError names.

    Looks first into the file of that name, so that the others are not imported.
    """
    for stem in () if name.startswith("_") else sorted(OPS.stems, key=lambda stem: stem != name):
        op = OPS.find(stem)
        constants = _functions(stem, op).get(name)
        if constants is not None:
            return OpFunction(name, op, constants)
    hint = "" if name.startswith("_") else did_you_mean(name, function_names())
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def _functions(stem: str, op: type[Op]) -> Mapping[str, Mapping[str, Any]]:
    return op.functions or {stem: {}}
