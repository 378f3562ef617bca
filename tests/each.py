"""Loops inside one test, for checks that cost less than a test of their own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each(argument: str, values: Iterable[object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a check for each value of an argument, or of several (`"op, dtype"`), in one test.

    All values that fail are reported, each with its message.
    """
    names, values = argument.split(", "), list(values)

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(check)
        def run(**others: Any) -> None:
            failures = []
            for value in values:
                given = dict(zip(names, value if len(names) > 1 else [value], strict=True))
                try:
                    check(**given, **others)
                except (Exception, pytest.fail.Exception) as error:
                    failures.append(f"{argument} = {value}: {type(error).__name__}: {error}")
            assert values, f"no {argument}"
            if failures:
                pytest.fail(f"{len(failures)} of {len(values)}:\n" + "\n\n".join(failures), pytrace=False)

        signature = inspect.signature(check)
        left = [parameter for name, parameter in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=left)
        return run

    return decorate
