"""Scores a run's hard model: `python -m experiments.evaluate RUN [--data NAME] [--part test] [--which best]`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from experiments.config.choices import ConfigError
from experiments.data import load as load_data
from experiments.data.dataset import DataError, Option
from experiments.terminal.console import short_path, table
from experiments.terminal.output import lasting_output
from experiments.tracking.checkpoint import CheckpointError
from experiments.tracking.run_paths import RunPaths
from experiments.training.build import floating
from experiments.training.loading import choices_of, load
from experiments.training.scoring import score
from surrogates import EmptyCell


@lasting_output()
def main(arguments: list[str] | None = None) -> int:
    """Prints loss and accuracy; returns 0, or 2 if the run, data set or part is wrong."""
    parser = argparse.ArgumentParser(prog="python -m experiments.evaluate", description="Scores a run's hard model.")
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--import", dest="modules", nargs="+", default=[], metavar="MODULE", help="your own modules")
    parser.add_argument("--part", choices=("train", "val", "test"), default="test")
    parser.add_argument("--which", choices=("best", "last"), default="best", help="which checkpoint")
    parser.add_argument("--data", help="another data set than the run's own, by name")
    parser.add_argument("--root", help="the folder of its files")
    given = parser.parse_args(arguments)
    try:
        for module in given.modules:
            import_module(module)
        print(table(_rows(given)))
    except (FileNotFoundError, ModuleNotFoundError, ConfigError, EmptyCell, CheckpointError, DataError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _rows(given: argparse.Namespace) -> list[tuple[str, str]]:
    choices = choices_of(RunPaths(given.run))
    torch.set_num_threads(choices.settings.threads)  # rounding depends on it
    model = load(given.run, given.which)
    option = choices.data if given.data is None else _option(given.data, given.root)
    if (option.input_shape, option.classes) != (choices.data.input_shape, choices.data.classes):
        mine, other = (f"{o.input_shape} and {o.classes} classes" for o in (choices.data, option))
        raise ConfigError(f"the run's model takes {mine}; data set {given.data} has {other}")
    data = load_data(option).to("cpu", floating(choices.settings))
    scored = score(model, data.parts[given.part])
    return [
        ("run", short_path(given.run)),
        ("checkpoint", given.which),
        ("data", f"{data.name}, {given.part}, {len(data.parts[given.part])} samples"),
        ("hard loss", f"{scored.loss:.6f}"),
        ("hard accuracy", f"{scored.accuracy:.4f}"),
    ]


def _option(name: str, root: str | None) -> Option:
    """The data option of that name: the one dataclass of its module.

    Raises ConfigError if there is none.
    """
    try:
        module = import_module(f"experiments.data.{name}")
    except ImportError:
        raise ConfigError(f"there is no data set '{name}'") from None
    classes = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
    options: list[Any] = [c for c in classes if is_dataclass(c) and hasattr(c, "load") and hasattr(c, "input_shape")]
    if not options:
        raise ConfigError(f"there is no data set '{name}'")
    option: Option = options[0](root=root)
    return option


if __name__ == "__main__":
    sys.exit(main())
