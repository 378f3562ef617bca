"""Straight-through over a whole function: where it begins and ends is the user's choice, not the op's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from surrogates.carriers import graft
from surrogates.per_thread import PerThread

Pass = Literal["value", "derivative"]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


_running: PerThread[Pass | None] = PerThread(None)


def running() -> Pass | None:
    """The pass of the block that is running, None outside of one."""
    return _running.value


def straight_through(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """f_st(x) = f(x) with every hard op hard, and the derivatives of f(x) with every hard op relaxed.

    Straight-through does not compose: in relu(x) relu(y), each relu hard with a smooth derivative, x has the derivative
    relu'(x) relu(y), which is 0 where y < 0, because the partner's value is hard. Wrapped as a whole, the function runs
    twice: in the first pass every strategy inside it, called by itself or by a HardLayer, gives op.hard(x); in the
    second its relaxation, smooth values included, whose derivatives, of every order, the result has. The relaxation is
    the smooth reading for `smooth`, the carrier for `ste`; other strategies do in the second pass what they do outside.
    A HardLayer in evaluation stays hard in both.

    The result is a tensor, or tensors in tuples, lists and dicts; those that are not floating are the first pass's. A
    block inside a block belongs to the outer one. The function must do the same both times: no dropout, no statistics
    that it updates. Works as a decorator, under torch.func and under torch.compile. Each thread has its own.
    """

    @functools.wraps(function)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if running() is not None:
            return function(*args, **kwargs)
        with torch.no_grad(), _running.holding("value"):
            value = function(*args, **kwargs)
        with _running.holding("derivative"):
            carrier = function(*args, **kwargs)
        result: Result = tree_map(_joined, value, carrier)
        return result

    return wrapped


def _joined(value: Any, carrier: Any) -> Any:
    if isinstance(value, Tensor) and value.is_floating_point():
        return graft(value.detach(), carrier)
    return value
