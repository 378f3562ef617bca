"""A torch call's arguments by name."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from surrogates.own_model.calls import Call
from surrogates.own_model.choice import NotReplaced

signature = cache(inspect.signature)
NUMPY_NAMES = {"x": "input", "x1": "input", "a": "input", "x2": "other", "axis": "dim", "keepdims": "keepdim"}


def by_name(call: Call, args: Any, kwargs: Any) -> dict[str, Any]:
    """The call's arguments by the names that its meaning gives them.

    Raises NotReplaced if its meaning has no such arguments.
    """
    named = {NUMPY_NAMES.get(name, name): value for name, value in kwargs.items()}
    try:
        bound = signature(call.meaning).bind(None, *args, **named)
    except TypeError as error:
        raise NotReplaced(f"arguments not supported: {error}") from error
    arguments = dict(bound.arguments)
    del arguments["apply"]
    return arguments
