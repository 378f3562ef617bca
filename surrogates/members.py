"""The ops and the strategies that there are, found by walking their packages."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from types import ModuleType
from typing import TypeVar

import surrogates.ops
import surrogates.strategies
from surrogates.core import Op, Strategy

Kind = TypeVar("Kind")


def ops() -> dict[str, type[Op]]:
    """The classes of ops by the stem of their module."""
    return _members(surrogates.ops, Op)


def strategies() -> dict[str, type[Strategy]]:
    """The classes of strategies by the stem of their module, shared bases left out."""
    found = _members(surrogates.strategies, Strategy)
    return {stem: cls for stem, cls in found.items() if cls.combine is not Strategy.combine}


@cache
def _members(package: ModuleType, base: type[Kind]) -> dict[str, type[Kind]]:
    found = {}
    for module in pkgutil.iter_modules(package.__path__):
        source = importlib.import_module(f"{package.__name__}.{module.name}")
        for cls in vars(source).values():
            if inspect.isclass(cls) and cls.__module__ == source.__name__ and issubclass(cls, base):
                found[module.name] = cls
    return found
