"""Reads the files of a run folder as plain data, and refuses damaged ones."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.config.folder_names import override_key
from experiments.config.settings import CONDUCT
from experiments.tracking.flat_config import flatten
from experiments.tracking.run_errors import reason
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import DONE, check_sealed
from experiments.tracking.strict_json import DamagedFile, read_json


class Unreadable(Exception):
    """Raised if a folder cannot be compared; the message says why."""


@contextmanager
def as_unreadable(file: Path) -> Iterator[None]:
    """Raises Unreadable, with the name of the file, if the block meets a fault in a file of the run."""
    try:
        yield
    except DamagedFile as error:
        raise Unreadable(f"{error.path.name} {error.fault}") from None
    except OSError as error:
        raise Unreadable(f"{file.name} cannot be read ({reason(error)})") from None
    except KeyError as error:
        raise Unreadable(f"{file.name} lacks {error}") from None
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        fault = str(error).partition("\n")[0]
        raise Unreadable(f"{file.name} is damaged, or another version wrote it: {fault}") from None


def read_result(paths: RunPaths, status: Mapping[str, Any]) -> dict[str, Any]:
    """Reads the result of a finished run; empty for any other run."""
    if status["status"] != DONE:
        return {}
    if not os.path.lexists(paths.result):
        raise Unreadable(f"{paths.status.name} says DONE, but {paths.result.name} is missing")
    result = read_json(paths.result)
    if not isinstance(result, dict) or not isinstance(result.get("metrics"), dict):
        raise Unreadable(f"{paths.result.name} is not the result of a run")
    own = status["config_hash"]
    if result.get("config_hash", own) != own:
        other = result["config_hash"]
        raise Unreadable(f"{paths.result.name} belongs to another run: its hash is {other}, this run's is {own}")
    check_sealed(status, paths.result)
    return result


def read_environment(paths: RunPaths, status: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Reads `env.json`, flat and without the command line, and the command line; both empty if the file is absent."""
    check_sealed(status, paths.env)
    if not os.path.lexists(paths.env):
        return {}, ""
    content = read_json(paths.env)
    if not isinstance(content, dict):
        raise Unreadable(f"{paths.env.name} is not the environment of a run")
    command = _command_line(content.pop("argv", None))
    return {key: comparable(value) for key, value in flatten(content).items()}, command


def _command_line(argv: Any) -> str:
    """Joins a recorded command line without the keys that do not affect results; empty if none was recorded."""
    if not isinstance(argv, list) or not argv:
        return ""
    program, *rest = map(str, argv)
    return shlex.join([Path(program).name, *(one for one in rest if override_key(one) not in CONDUCT)])


def comparable(value: Any) -> Any:
    """Converts a configured value so that it can be compared and hashed."""
    return str(value) if isinstance(value, (list, tuple, dict)) else value
