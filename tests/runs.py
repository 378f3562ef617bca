"""Runs of the main job: as a function, as a command in this process, and as a process of its own."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"
SHORT = ("max_steps=3", "model.width=8", "eval_every=3", "log_every=1")


def representative(component: str, strategy: str) -> bool:
    """Whether a pair stands for the whole product: each component once; two between which all strategies apply."""
    return strategy == "ste" or component in ("binary", "quantized_activation")


@dataclass(frozen=True)
class Answer:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


@cache
def read_files_once() -> None:
    """Hydra reads every file anew for each composition, a third of its time; those of `conf` stay as they are."""
    from hydra._internal.config_repository import ConfigRepository

    load = ConfigRepository.load_config
    known: dict[tuple[str, ...], bytes] = {}

    def load_config(self: ConfigRepository, config_path: str) -> Any:
        places = [str(source.path) for source in self.sources]
        if str(CONF) not in places:
            return load(self, config_path)
        key = (*places, config_path)
        if key not in known:
            known[key] = pickle.dumps(load(self, config_path))
        return pickle.loads(known[key])

    ConfigRepository.load_config = load_config


def compose(*overrides: str) -> Any:
    """A configuration as the command line would compose it."""
    return copy.deepcopy(_composed(overrides))


@cache
def _composed(overrides: tuple[str, ...]) -> Any:
    import hydra
    from hydra.core.global_hydra import GlobalHydra

    from experiments.config import VERSION_BASE
    from experiments.config.folder_names import register_resolvers

    read_files_once()
    register_resolvers()
    GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(CONF), version_base=VERSION_BASE):
        return hydra.compose("config", list(overrides))


def train(folder: Path, *overrides: str, **request: Any) -> Any:
    """Runs a configuration in a folder, without a command line."""
    from experiments.training.run import Request, run

    return run(Request(compose(*overrides), Path(folder), overrides=overrides, **request))


def command(*arguments: str, cwd: Path, conf: Path = CONF) -> Answer:
    """`python train.py ARGUMENTS` in the folder `cwd`, in this process; errors that would show a trace are raised."""
    from hydra.core.global_hydra import GlobalHydra

    from experiments.command.start import main

    read_files_once()
    GlobalHydra.instance().clear()
    out, err = io.StringIO(), io.StringIO()
    before, argv = Path.cwd(), sys.argv
    sys.argv = ["train.py", *arguments]
    os.chdir(cwd)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main(conf)
    finally:
        os.chdir(before)
        sys.argv = argv
    return Answer(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def process(*arguments: str, cwd: Path, program: tuple[str, ...] = (str(ROOT / "train.py"),), **more: Any) -> Answer:
    """`python train.py ARGUMENTS` in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    line = [sys.executable, *program, *arguments]
    done = subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True, check=False, **more)
    return Answer(done.returncode, done.stdout, done.stderr)


def read(path: Path) -> Any:
    """Strict JSON: a number that is not finite fails."""
    return json.loads(path.read_text(), parse_constant=pytest.fail)


def rewrite_status(folder: Path, **changes: Any) -> None:
    """Writes the status of a run as an earlier version would have, without checksums."""
    status = {key: value for key, value in read(folder / "status.json").items() if key != "sha256"}
    (folder / "status.json").write_text(json.dumps({**status, **changes}))


def lines(folder: Path) -> list[dict[str, Any]]:
    """The logged steps of a run."""
    return [json.loads(line, parse_constant=pytest.fail) for line in (folder / "metrics.jsonl").open()]


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by name."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def only_run(root: Path) -> Path:
    """The folder of the one run below `root`."""
    (status,) = root.rglob("status.json")
    return status.parent


def in_a_process(function: Callable[..., Any], *arguments: Any) -> int | None:
    """The exit code of a call in a process of its own: a copy of one that has only imported what trains.

    A copy of this one could not train where a test before has left autograd's threads running.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["experiments.training.run", "experiments.stacked.run"])
    process = context.Process(target=function, args=arguments)
    process.start()
    process.join()
    return process.exitcode
