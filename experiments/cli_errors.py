"""Hydra's messages in our words: the nearest right word instead of the advice to append a misspelt key."""

from __future__ import annotations

import re
from pathlib import Path

from experiments.config import suggestion
from experiments.hyperparameters import options, settable_keys


def readable(error: BaseException, conf: Path) -> str:
    """What was wrong on the command line, where, and what would be right."""
    text = str(error).strip()
    option = re.search(r"Could not find '(\w+)/([^']+)'", text)
    if option and (conf / option[1]).is_dir():
        known = options(conf, option[1])
        near = suggestion(option[2], known)
        hint = near if "did you mean" in near else ""
        return f"{option[1]} has no option '{option[2]}'{hint}; there are: {', '.join(known)}"
    key = re.search(r"Could not override '([^']+)'", text)
    if key:
        return f"there is no key {key[1]}{_nearest(key[1], conf)}"
    return text.split("\nSet the environment variable")[0].strip()


def _nearest(key: str, conf: Path) -> str:
    """A hint among the keys of the same group, or among all if the group is misspelt."""
    group = key.rpartition(".")[0]
    known = settable_keys(conf)
    same = [candidate for candidate in known if group and candidate.startswith(f"{group}.")]
    hint = suggestion(key, same or known)
    return hint if same or "did you mean" in hint else "; python train.py --help lists them"
