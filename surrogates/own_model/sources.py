"""The hard torch calls in a module's forward, read from its source code."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from torch import Tensor
from torch.autograd import Function

from surrogates.own_model.calls import CALLS, CONVERSIONS, HARD_WITH, MARKED
from surrogates.own_model.elementwise import div
from surrogates.own_model.unsupported import LOGIC, PYTHON, UNSUPPORTED

SOMETIMES = ("to", "type", "type_as", "bool", "any", "all", *HARD_WITH)  # hard by their arguments, not by their name
HARD = {
    function: call
    for function, call in {**CALLS, **MARKED, **CONVERSIONS, **UNSUPPORTED}.items()
    if call.name not in SOMETIMES and call.meaning not in (LOGIC, PYTHON)
}


@cache
def hard_calls(kind: type[Any]) -> tuple[str, ...]:
    """The hard calls of a class's forward, as "round at model.py:12".

    It reads forward and the functions, methods and custom Functions of the same package that forward calls. It knows
    a call by its name: functions of torch, and methods with the name of a Tensor's. It does not see operators, calls
    through variables, submodules, and code whose source is not available.
    """
    found: dict[str, None] = {}
    waiting, seen = [inspect.unwrap(kind.forward)], set()
    while waiting:
        function = waiting.pop()
        if function in seen or not isinstance(function, FunctionType):
            continue
        seen.add(function)
        for name, line, target in _calls(function, kind):
            if _is_hard(target):
                found[f"{name} at {Path(function.__code__.co_filename).name}:{line}"] = None
            elif _package(target) == _package(function) != "torch":
                waiting.append(inspect.unwrap(target))
    return tuple(found)


def _calls(function: FunctionType, kind: type[Any]) -> Iterator[tuple[str, int, Any]]:
    """Name, line and target of every call in a function's source."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):  # no source, or part of an expression
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func).rpartition(".")[2], first + node.lineno - 1, _target(node, function, kind)


def _target(call: ast.Call, function: FunctionType, kind: type[Any]) -> Any:
    """What a call calls: a function, the forward of a custom Function, or a Tensor's method; else None."""
    target = _value(call.func, function, kind)
    exact = _is_hard(target) and HARD[target].meaning is div
    return None if exact and all(keyword.arg != "rounding_mode" for keyword in call.keywords) else target


def _value(name: ast.expr, function: FunctionType, kind: type[Any]) -> Any:
    if isinstance(name, ast.Name):
        return function.__globals__.get(name.id)
    if not isinstance(name, ast.Attribute):
        return None
    owner = _value(name.value, function, kind)
    if isinstance(owner, type) and issubclass(owner, Function) and name.attr == "apply":
        return owner.forward
    if isinstance(owner, (ModuleType, type)):
        return getattr(owner, name.attr, None)
    if isinstance(name.value, ast.Name) and name.value.id == "self":
        return getattr(kind, name.attr, None)
    return getattr(Tensor, name.attr, None) if owner is None else None


def _is_hard(target: Any) -> bool:
    try:
        return target in HARD
    except TypeError:  # not hashable
        return False


def _package(target: Any) -> str | None:
    module = getattr(target, "__module__", None)
    return module.partition(".")[0] if isinstance(module, str) else None
