"""The custom `torch.autograd.Function` inside which a call is made."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType, FrameType
from typing import Any

from torch.autograd import Function


def custom_function(*methods: str) -> str | None:
    """The name of the innermost custom Function one of whose methods is running; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        method = frame.f_code.co_name
        if method in methods and (name := _function_of(frame.f_code, method)):
            return name
        frame = frame.f_back
    return None


@cache
def _function_of(code: CodeType, method: str) -> str | None:
    return next((kind.__name__ for kind in _subclasses(Function) if _code(getattr(kind, method)) is code), None)


def _code(function: Any) -> CodeType | None:
    return getattr(function, "__code__", None)


def _subclasses(kind: type[Function]) -> Iterator[type[Function]]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)
