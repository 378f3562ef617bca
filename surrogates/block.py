"""Straight-through over a whole function, whose extent the user chooses."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, Literal, ParamSpec, TypeVar

import torch
from torch import Tensor

from surrogates.graft import graft

Pass = Literal["value", "derivative"]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _Running(threading.local):
    """The pass that each thread is in. A threading.local, because torch.compile cannot trace a ContextVar."""

    now: Pass | None = None


_running = _Running()


def current_pass() -> Pass | None:
    """The pass of the running block; None outside a block."""
    return _running.now


@contextmanager
def _within(now: Pass) -> Iterator[None]:
    _running.now = now
    try:
        yield
    finally:
        _running.now = None


def straight_through(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """f_st(x) = f(x) with every hard op hard, and the derivatives of f(x) with every hard op relaxed.

    Straight-through does not compose. In relu(x) relu(y), each relu hard with a smooth derivative, x has the derivative
    relu'(x) relu(y). That is 0 where y < 0, because the other factor's value is hard.
    A wrapped function runs twice. In the first pass every strategy inside it, called by itself or by a HardLayer,
    returns op.hard(x). In the second it returns its relaxation, smooth values included; the result has the derivatives,
    of every order, of this pass. The relaxation is the smooth reading for `smooth` and the carrier for `ste`. Other
    strategies do in the second pass what they do outside. A HardLayer in evaluation stays hard in both.

    The result is a tensor, or tensors in tuples, lists and dicts. Tensors that are not floating are those of the first
    pass. A block inside a block is part of the outer block. The function must do the same both times: no dropout, no
    statistics that it updates. Works as a decorator, under torch.func and under torch.compile. Each thread has its own
    block.
    """

    @functools.wraps(function)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if current_pass() is not None:
            return function(*args, **kwargs)
        with torch.no_grad(), _within("value"):
            value = function(*args, **kwargs)
        with _within("derivative"):
            carrier = function(*args, **kwargs)
        result: Result = _join(value, carrier)
        return result

    return wrapped


def _join(value: Any, carrier: Any) -> Any:
    """The first pass's result; its floating tensors have the derivatives of the second's."""
    if isinstance(value, Tensor):
        return graft(value.detach(), carrier) if value.is_floating_point() else value
    if isinstance(value, dict):
        joined = copy(value)  # of the same class
        joined.update({key: _join(part, carrier[key]) for key, part in value.items()})
        return joined
    if isinstance(value, (tuple, list)):
        parts = [_join(*both) for both in zip(value, carrier, strict=True)]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
