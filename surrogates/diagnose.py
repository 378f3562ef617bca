"""Finds out why a gradient is None, zero or NaN.

Usage: hardgrad diagnose module:function, where function() returns (model, loss_fn, batch).
Exit code 0: healthy; 1: problems found; 2: the command, the module, the function or its result is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from types import ModuleType
from typing import Any

from surrogates.diagnosis.callable_module import make_callable
from surrogates.diagnosis.diagnose import diagnose
from surrogates.diagnosis.report import Diagnosis


class UsageError(Exception):
    """The command cannot diagnose what it was given."""


def main(arguments: list[str] | None = None) -> int:
    """Prints the diagnosis; returns the exit code."""
    parser = argparse.ArgumentParser("hardgrad diagnose", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("target", metavar="module:function", help="function() returns (model, loss_fn, batch)")
    try:
        diagnosis = _diagnose(parser.parse_args(arguments).target)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(diagnosis)
    return 0 if diagnosis.healthy else 1


def _diagnose(target: str) -> Diagnosis:
    made = _call(target)
    if not (isinstance(made, (tuple, list)) and len(made) == 3):
        size = f" of {len(made)}" if isinstance(made, (tuple, list)) else ""
        raise UsageError(f"{target} must return (model, loss_fn, batch), got a {type(made).__name__}{size}")
    try:
        return diagnose(*made)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{target} must return (model, loss_fn, batch): {error}") from error


def _call(target: str) -> Any:
    module, _, name = target.partition(":")
    if not module or not name:
        raise UsageError(f"the target must be module:function, for example train:example, got {target!r}")
    function = getattr(_import(module), name, None)
    if function is None:
        raise UsageError(f"module {module} has no function {name!r}")
    if not callable(function):
        raise UsageError(f"{target} must be a function, got {type(function).__name__}")
    try:
        return function()
    except Exception as error:
        raise UsageError(f"{target} raised {_describe(error)}") from error


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(f"there is no module {error.name!r}, neither here nor installed") from error
        raise UsageError(f"importing {name} raised {_describe(error)}") from error
    except Exception as error:
        raise UsageError(f"importing {name} raised {_describe(error)}") from error


def _describe(error: Exception) -> str:
    """Type, text and line of an error in the user's code."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"


make_callable(__name__, diagnose)

if __name__ == "__main__":
    sys.exit(main())
