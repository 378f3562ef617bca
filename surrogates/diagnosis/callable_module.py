"""Makes a command's module callable as the function of its name, which its import would hide otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def make_callable(module: str, function: Callable[..., Any]) -> None:
    """Lets a call of the module be one of the function."""

    class CallableModule(ModuleType):
        __call__ = staticmethod(function)

    sys.modules[module].__class__ = CallableModule
