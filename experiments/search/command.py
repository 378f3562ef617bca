"""Searches for the best values of some keys: `python -m experiments.search optimizer.lr=log(1e-3,1) -- strategy=ste`.

Before `--`: the keys to search, each as log(LOW,HIGH), interval(LOW,HIGH) or A,B,C. After it: what all trials share.
The search minimises 1 - best validation accuracy. It prunes trials that are worse than the median of the others at the
same step. The study is a file in the search's folder, so the same command resumes it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig

from experiments.conf_folder import CONF
from experiments.config import VERSION_BASE
from experiments.config.folder_names import register_resolvers, sweep_name
from experiments.config.own_options import refuse_shipped_names
from experiments.config.values import ConfigError
from experiments.sweep.listing import as_typed
from experiments.terminal.extras import install
from experiments.terminal.output import lasting_output
from experiments.training.interruption import Interrupted
from experiments.training.user_errors import USER_ERRORS


@lasting_output()
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the search; returns 0 if a trial completed, 1 if none did, 2 if the command is wrong, 130 if stopped."""
    parser = argparse.ArgumentParser(prog="python -m experiments.search", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("space", nargs="+", metavar="KEY=SPACE", help="log(A,B), interval(A,B) or A,B,C")
    parser.add_argument("--trials", type=int, default=20, help="trials in all, those of earlier commands included")
    parser.add_argument("--root", type=Path, help="where the trials go (runs/search-HASH)")
    parser.add_argument("--sampler-seed", type=int, default=0)
    parser.add_argument("--config-dir", type=Path, metavar="FOLDER", help="a folder of your own options, as for train")
    own, shared = _split(list(sys.argv[1:] if arguments is None else arguments))
    options = parser.parse_args(own)
    try:
        from experiments.search.study import search
    except ModuleNotFoundError as error:
        print(f"error: {error.name} is not installed; {install('search')}", file=sys.stderr)
        return 2
    root = options.root or Path("runs") / sweep_name([*options.space, *shared]).replace("sweep", "search", 1)
    register_resolvers()
    try:
        with hydra.initialize_config_dir(str(CONF), version_base=VERSION_BASE):
            compose = partial(_compose, _search_path(options.config_dir))
            best = search(root, _spaces(options.space), shared, options.trials, options.sampler_seed, compose)
    except (*USER_ERRORS, HydraException) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (Interrupted, KeyboardInterrupt):
        print("stopped; run the same command to resume", file=sys.stderr)
        return 130
    print(best or "no trial was completed")
    return int(best is None)


def _search_path(own: Path | None) -> list[str]:
    """The override that adds a user's folder of options.

    Raises ConfigError if the folder is absent, or one of its options has the name of a shipped one.
    """
    if own is None:
        return []
    folder = own.absolute()
    if not folder.is_dir():
        raise ConfigError(f"Additional config directory '{folder}' not found")
    refuse_shipped_names(folder)
    return [f"hydra.searchpath={as_typed([f'file://{folder}'])}"]


def _compose(search_path: Sequence[str], overrides: Sequence[str]) -> DictConfig:
    """A run's configuration with Hydra's part, as the command line would compose it."""
    return hydra.compose("config", [*overrides, *search_path], return_hydra_config=True)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _spaces(texts: Sequence[str]) -> dict[str, Any]:
    """The search spaces by key: (LOW, HIGH, whether logarithmic), or a list of values.

    Raises ConfigError for any other text.
    """
    spaces: dict[str, Any] = {}
    for text in texts:
        key, _, space = text.partition("=")
        kind, _, inner = space.partition("(")
        try:
            if kind in ("log", "interval") and inner.endswith(")"):
                low, high = map(float, inner[:-1].split(","))
                if not low < high or (kind == "log" and low <= 0):
                    raise ValueError
                spaces[key] = (low, high, kind == "log")
            elif key and space:
                spaces[key] = space.split(",")
            else:
                raise ValueError
        except ValueError:
            raise ConfigError(f"{text} is no space; write log(1e-3,1), interval(0,0.9) or 16,32,64") from None
    return spaces
