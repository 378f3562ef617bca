"""Hydra's messages made plain: the nearest known key or option instead of the advice to append a misspelt key."""

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
EXTRAS = ("joblib", "ray", "submitit")  # of pyproject.toml: launchers of others


def readable(error: BaseException, conf: Path) -> str:
    """The mistake on the command line, and what would be right."""
    text = str(error).strip()
    option = re.search(r"Could not find '(\w+)/([^']+)'", text)
    if option and (conf / option[1]).is_dir():
        known = options(conf, option[1])
        near = suggestion(option[2], known)
        hint = near if "did you mean" in near else ""
        return f"{option[1]} has no option '{option[2]}'{hint}; there are: {', '.join(known) or 'none'}"
    launcher = re.search(r"Could not find 'hydra/launcher/((\w+?)(_\w+)?)'", text)
    if launcher and launcher[2] in EXTRAS:
        return f"hydra/launcher={launcher[1]} is not installed; {install(launcher[2])}"
    key = re.search(r"Could not override '([^']+)'", text)
    if key and key[1] not in GROUPS:
        return f"there is no key {key[1]}{_nearest(key[1], conf)}"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename} cannot be made or written ({error.strerror}); choose another hydra.run.dir"
    text = text.split("\nSet the environment variable")[0].strip() or type(error).__name__
    if isinstance(error, OverrideParseException):
        return f"{text}\nA value with , = # or letters beyond ASCII needs two pairs of quotes: 'key=\"a,b\"'"
    cause = str(error.__cause__ or "").strip().splitlines() if isinstance(error, HydraException) else []
    return f"{text}: {cause[0]}" if cause and cause[0] not in text else text


def refuse_repeated_keys(arguments: Sequence[str]) -> None:
    """Raises ConfigError if a sweep sets a key twice: Hydra would keep only the last values."""
    if not set(SWEEP_FLAGS) & set(arguments):
        return
    keys = [
        argument.lstrip("+").partition("=")[0]
        for argument in arguments
        if not argument.startswith("-") and "=" in argument
    ]
    twice = [key for key in dict.fromkeys(keys) if keys.count(key) > 1]
    if twice:
        raise ConfigError(f"{twice[0]} is given twice, and a sweep would use only the last; use {twice[0]}=A,B")


def _nearest(key: str, conf: Path) -> str:
    """A hint among the keys of the same group, or among all if the group is misspelt or left out."""
    known = settable_keys(conf)
    group, _, name = key.rpartition(".")
    owners = [option for option in options(conf, group) if key in option_keys(conf, group, option)] if group else []
    if owners:
        return f" here; it is one of {', '.join(f'{group}={owner}' for owner in owners)}"
    same = [candidate for candidate in known if group and candidate.startswith(f"{group}.")]
    full = [candidate for candidate in known if not group and candidate.endswith(f".{name}")]
    if full:
        return f"; did you mean {full[0]}?"
    hint = suggestion(key, same or known)
    return hint if same or "did you mean" in hint else "; python train.py --help lists them"
