"""The files of a run folder as plain data, read without trusting them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from experiments.config.folder_names import override_key
from experiments.config.settings import CONDUCT
from experiments.tracking.flat_config import flatten
from experiments.tracking.run_errors import reason
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import DONE
from experiments.tracking.strict_json import DamagedFile, read_json


class Unreadable(Exception):
    """A folder that cannot be compared; the message says why."""


@contextmanager
def as_unreadable(file: Path) -> Iterator[None]:
    """Raises Unreadable, with the name of the file, for any fault of a file of the run."""
    try:
        yield
    except DamagedFile as error:
        raise Unreadable(f"{file.name} {error.fault}") from None
    except OSError as error:
        raise Unreadable(f"{file.name} cannot be read ({reason(error)})") from None
    except KeyError as error:
        raise Unreadable(f"{file.name} lacks {error}") from None
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise Unreadable(f"{file.name} is damaged, or of another version: {str(error).partition(chr(10))[0]}") from None


def read_config(paths: RunPaths) -> dict[str, Any]:
    """The configuration of a run, nested."""
    if not paths.config.exists():
        raise Unreadable(f"no {paths.config.name}")
    yaml: Any = import_module("yaml")  # by name, as it has no type hints
    try:
        content = yaml.load(paths.config.read_text(encoding="utf-8"), Loader=_loader())
    except yaml.YAMLError as error:
        raise Unreadable(f"{paths.config.name} is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(content, dict):
        raise Unreadable(f"{paths.config.name} is not the configuration of a run")
    return content


def read_result(paths: RunPaths, status: str) -> dict[str, Any]:
    """The result of a finished run, empty for any other."""
    if status != DONE:
        return {}
    if not paths.result.exists():
        raise Unreadable(f"{paths.status.name} says DONE, but there is no {paths.result.name}")
    result = read_json(paths.result)
    if not isinstance(result, dict) or not isinstance(result.get("metrics"), dict):
        raise Unreadable(f"{paths.result.name} is not the result of a run")
    return result


def read_environment(paths: RunPaths) -> tuple[dict[str, Any], str]:
    """All of `env.json` but the command line, flat, and the command line; both are empty without such a file."""
    if not paths.env.exists():
        return {}, ""
    content = read_json(paths.env)
    if not isinstance(content, dict):
        raise Unreadable(f"{paths.env.name} is not the environment of a run")
    command = _command_line(content.pop("argv", None))
    return {key: comparable(value) for key, value in flatten(content).items()}, command


def _command_line(argv: Any) -> str:
    """A recorded command line, without the keys that do not affect results; empty if none was recorded."""
    if not isinstance(argv, list) or not argv:
        return ""
    program, *rest = map(str, argv)
    return shlex.join([Path(program).name, *(one for one in rest if override_key(one) not in CONDUCT)])


def comparable(value: Any) -> Any:
    """A configured value that can be compared and hashed."""
    return str(value) if isinstance(value, (list, tuple, dict)) else value


@cache
def _loader() -> Any:
    """PyYAML's safe loader, in C if there is one; 1e-05 is a number as in YAML 1.2, while PyYAML reads it as text."""
    yaml: Any = import_module("yaml")

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
    )
    return Loader
