"""Makes a command's module callable as the function of the same name, which the module's import would hide."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def make_callable(module: str, function: Callable[..., Any]) -> None:
    """Makes a call of the module a call of the function."""

    class CallableModule(ModuleType):
        __call__ = staticmethod(function)

    sys.modules[module].__class__ = CallableModule
