"""Why is my gradient None, zero or NaN? The command line of `surrogates.diagnose`.

Usage: python -m surrogates.diagnose module:function, where function() returns (model, loss_fn, batch).
Exit code 0: healthy; 1: problems found; 2: the command, module, function or what it returns is wrong.
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
    """What the command was given can't be diagnosed."""


def main(arguments: list[str] | None = None) -> int:
    """Prints the diagnosis; the exit code."""
    parser = argparse.ArgumentParser("python -m surrogates.diagnose", description=(__doc__ or "").split("\n")[0])
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
        raise UsageError(f"{target} must return (model, loss_fn, batch), it returned a {type(made).__name__}{size}")
    try:
        return diagnose(*made)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{target} must return (model, loss_fn, batch): {error}") from error


def _call(target: str) -> Any:
    module, _, name = target.partition(":")
    if not module or not name:
        raise UsageError(f"expected module:function, for example train:example, got {target!r}")
    function = getattr(_import(module), name, None)
    if function is None:
        raise UsageError(f"module {module} has no function {name}")
    if not callable(function):
        raise UsageError(f"{target} is a {type(function).__name__}, not a function")
    try:
        return function()
    except Exception as error:
        raise UsageError(f"{target} raised {_describe(error)}") from error


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(f"no module {error.name}; it is looked for from the working directory") from error
        raise UsageError(f"importing {name} raised {_describe(error)}") from error
    except Exception as error:
        raise UsageError(f"importing {name} raised {_describe(error)}") from error


def _describe(error: Exception) -> str:
    """Type, text and line of an error of the user's code."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"


make_callable(__name__, diagnose)

if __name__ == "__main__":
    sys.exit(main())
