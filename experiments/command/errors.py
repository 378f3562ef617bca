"""Hydra's messages in plain words: a misspelt key or option is answered with the nearest known one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hydra.errors import HydraException, OverrideParseException

from experiments.config.keys import option_keys, options, settable_keys
from experiments.config.settings import GROUPS
from experiments.config.values import ConfigError, suggestion
from experiments.terminal.extras import install

SWEEP_FLAGS = ("-m", "--multirun")
EXTRAS = ("joblib", "ray", "submitit")  # launchers that pyproject.toml lists as extras


def readable(error: BaseException, conf: Path) -> str:
    """Says what was given, what is wrong, and what would be right."""
    text = str(error).strip()
    option = re.search(r"Could not find '(\w+)/([^']+)'", text)
    if option and (conf / option[1]).is_dir():
        known = options(conf, option[1])
        hint = _nearest_option(option[1], option[2], known, conf)
        return f"{option[1]} has no option '{option[2]}'{hint} Options of {option[1]}: {', '.join(known) or 'none'}"
    launcher = re.search(r"Could not find 'hydra/launcher/((\w+?)(_\w+)?)'", text)
    if launcher and launcher[2] in EXTRAS:
        return f"hydra/launcher={launcher[1]} is not installed; {install(launcher[2])}"
    key = re.search(r"Could not override '([^']+)'", text)
    if key and key[1] not in GROUPS:
        return f"there is no key {key[1]}{_nearest(key[1], conf)}"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename} cannot be created or written ({error.strerror}); choose another hydra.run.dir"
    text = text.split("\nSet the environment variable")[0].strip() or type(error).__name__
    if isinstance(error, OverrideParseException):
        return f"{text}\nA value with , = # or letters beyond ASCII needs two pairs of quotes: 'key=\"a,b\"'"
    cause = str(error.__cause__ or "").strip().splitlines() if isinstance(error, HydraException) else []
    return f"{text}: {cause[0]}" if cause and cause[0] not in text else text


def refuse_repeated_keys(arguments: Sequence[str]) -> None:
    """Refuses a sweep that sets a key twice: Hydra would keep only the last values.

    Raises ConfigError if a key is set twice.
    """
    if not set(SWEEP_FLAGS) & set(arguments):
        return
    keys = [
        argument.lstrip("+").partition("=")[0]
        for argument in arguments
        if not argument.startswith("-") and "=" in argument
    ]
    twice = [key for key in dict.fromkeys(keys) if keys.count(key) > 1]
    if twice:
        raise ConfigError(f"{twice[0]} is given twice; to sweep over two values, write {twice[0]}=A,B")


def _nearest_option(group: str, name: str, known: list[str], conf: Path) -> str:
    """A hint at the nearest option, or at another group's option of that name."""
    near = suggestion(name, known, f"{group}=")
    owners = [other for other in GROUPS if name in options(conf, other)]
    if owners:
        return f"; {name} is a {owners[0]}: {owners[0]}={name}."
    return near if "did you mean" in near else "."


def _nearest(key: str, conf: Path) -> str:
    """A hint at a key of the same group, or at any key if the group is misspelt or left out."""
    known = settable_keys(conf)
    group, _, name = key.rpartition(".")
    owners = [option for option in options(conf, group) if key in option_keys(conf, group, option)] if group else []
    if owners:
        return f" here; these options have it: {', '.join(f'{group}={owner}' for owner in owners)}"
    same = [candidate for candidate in known if group and candidate.startswith(f"{group}.")]
    full = [candidate for candidate in known if not group and candidate.endswith(f".{name}")]
    if full:
        return f"; did you mean {full[0]}?"
    hint = suggestion(key, same or known)
    return hint if same or "did you mean" in hint else "; --help lists all keys"
