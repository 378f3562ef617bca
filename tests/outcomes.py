"""What a call does, in a form that two calls can be compared by: result, error, and what becomes of the arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from surrogates import through
from surrogates.core import Strategy


def outcome(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Class and message of the error, or bits of the result and the arguments, and which argument the result is.

    Also the state of torch's generator after the call, which starts from a seed.
    """
    torch.manual_seed(0)
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        return type(error), str(error).partition("Exception raised from")[0]  # there torch's own stack begins
    given = [*args, *kwargs.values()]
    drawn = torch.get_rng_state()
    return facts(result), facts(given), [i for i, x in enumerate(given) if x is result], facts(drawn)


def facts(x: Any) -> Any:
    """Class, dtype, shape, strides and bits of a tensor; the same of each part of a container."""
    if isinstance(x, Tensor):
        numbers = x.detach().resolve_conj().clone(memory_format=torch.contiguous_format).reshape(-1)
        return type(x), x.dtype, x.shape, x.stride(), numbers.view(torch.uint8).numpy().tobytes()
    if isinstance(x, (tuple, list)):
        return type(x), [facts(part) for part in x]
    return type(x), repr(x)


def assert_unchanged(
    strategy: Strategy, function: Callable[..., Any], arguments: Callable[[], tuple[Any, dict[str, Any]]]
) -> Any:
    """A call, on new arguments each time, has inside a block the outcome that it has outside."""
    args, kwargs = arguments()
    plain = outcome(function, args, kwargs)
    with through(strategy):
        args, kwargs = arguments()
        inside = outcome(function, args, kwargs)
    assert inside == plain, f"{function} {args} {kwargs}: outside {plain}, inside {inside}"
    return plain
