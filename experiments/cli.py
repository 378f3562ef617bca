"""The command line: Hydra's, with its errors and a sweep's end put into words."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from experiments.config import GROUPS, ConfigError, suggestion
from experiments.console import table
from experiments.data.dataset import DataError
from experiments.naming import register_resolvers
from experiments.tracking.run_errors import FolderError, RunOver

VERSION_BASE = "1.3"
UserError = (ConfigError, DataError, FolderError)


def main(conf: Path) -> NoReturn:
    """Runs the job or the sweep that the command line asks for, and exits: 0 if all is well.

    1: a run failed; 2: the command, configuration, data or folder is wrong; 130, 143: stopped by a signal.
    """
    register_resolvers()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # errors come to us instead of being printed as a trace
    jobs: list[tuple[str, str, str]] = []
    refused: list[Exception] = []  # kept back from Hydra, which would announce it in its own words first

    @hydra.main(version_base=VERSION_BASE, config_path=str(conf), config_name="config")
    def task(config: DictConfig) -> float | None:
        try:
            return _job(config, conf, jobs)
        except UserError as error:
            refused.append(error)
            return None

    try:
        task()
        if refused:
            raise refused[0]
    except (*UserError, HydraException, OmegaConfBaseException) as error:
        _fail(2, _readable(error, conf))
    except KeyboardInterrupt as stopped:
        signum = int(getattr(stopped, "signum", signal.SIGINT))
        _fail(128 + signum, "stopped; the same command goes on from here")
    sys.exit(_report(jobs))


def _job(config: DictConfig, conf: Path, jobs: list[tuple[str, str, str]]) -> float | None:
    from experiments.run import run
    from experiments.summary import closing_table, shown

    hydra_config = HydraConfig.get()
    sweeping = hydra_config.mode == RunMode.MULTIRUN
    name = shown(Path(hydra_config.runtime.output_dir))
    try:
        outcome = run(_request(config, hydra_config, conf, sweeping))
    except RunOver as error:
        if not (sweeping and error.status == "DONE"):
            raise
        jobs.append((name, "DONE", "was done already"))
        return None
    except UserError as error:
        if not sweeping:
            raise
        jobs.append((name, "FAILED", str(error)))
        return None
    name = shown(outcome.folder)
    jobs.append((name, outcome.status, outcome.reason or ""))
    if outcome.result is None:
        return None
    if not sweeping:
        print(closing_table(outcome.result, outcome.folder))
    else:
        best = outcome.result["best"]
        print(f"{name}: {best['accuracy/val']:.4f} validation, {best['accuracy/test']:.4f} test", flush=True)
    return 1.0 - float(outcome.result["best"]["accuracy/val"])


def _request(config: DictConfig, hydra_config: Any, conf: Path, sweeping: bool) -> Any:
    from omegaconf import OmegaConf, open_dict

    from experiments.run import Request

    folder = Path(hydra_config.runtime.output_dir)
    chosen = any(override.startswith("hydra.run.dir=") for override in hydra_config.overrides.hydra)
    whole = OmegaConf.create({"hydra": hydra_config})
    with open_dict(whole):
        files = {
            "config.yaml": config,
            "hydra.yaml": whole,
            "overrides.yaml": OmegaConf.create(list(hydra_config.overrides.task)),
        }
    return Request(
        config=config,
        folder=folder,
        search=None if sweeping or chosen else folder.parent,
        argv=sys.argv,
        overrides=list(hydra_config.overrides.task),
        columns=columns(conf),
        hydra=files,
    )


def columns(conf: Path) -> list[str]:
    """The dotted keys of all options of all groups: what one run has and another lacks is still a column of both."""
    keys: dict[str, None] = {}
    for group in GROUPS:
        for option in sorted((conf / group).glob("*.yaml")):
            for key in re.findall(r"^(\w+):", option.read_text(), flags=re.MULTILINE):
                if key != "_partial_":
                    keys[f"{group}.{key}"] = None
    return [*keys]


def _report(jobs: list[tuple[str, str, str]]) -> int:
    """Says what did not end well; a sweep's n/a jobs are listed but no failure."""
    if len(jobs) > 1:
        counts = {status: sum(job[1] == status for job in jobs) for status in dict.fromkeys(job[1] for job in jobs)}
        print("\n" + ", ".join(f"{count} {status}" for status, count in counts.items()))
    for name, status, reason in jobs:
        if status != "DONE":
            print(table([(status, name), ("", reason)]), file=sys.stderr)
    if len(jobs) == 1 and jobs[0][1] == "NOT_APPLICABLE":
        return 2
    return int(any(status == "FAILED" for _, status, _ in jobs))


def _fail(code: int, message: str) -> NoReturn:
    print(f"error: {message}" if code == 2 else message, file=sys.stderr)
    sys.exit(code)


def _readable(error: BaseException, conf: Path) -> str:
    """Hydra's message without its advice to append a misspelt key, and with the nearest right word."""
    text = str(error.__cause__ or error) if "Could not override" in str(error) else str(error)
    text = str(error)
    option = re.search(r"In '.*?': Could not find '(\w+)/([^']+)'", text) or re.search(r"Could not find '(\w+)/([^']+)'", text)
    if option:
        known = sorted(path.stem for path in (conf / option[1]).glob("*.yaml"))
        there = f"there are: {', '.join(known)}"
        near = suggestion(option[2], known)
        return f"{option[1]} has no option '{option[2]}'{near if 'mean' in near else ''}; {there}" if known else text
    key = re.search(r"Could not override '([^']+)'", text)
    if key:
        group, _, last = key[1].rpartition(".")
        return f"there is no key {key[1]}{suggestion(key[1], columns_and_settings(conf))}"
    return text.split("\nSet the environment variable")[0].strip()


def columns_and_settings(conf: Path) -> list[str]:
    """All keys that can be set."""
    from dataclasses import fields

    from experiments.settings import Settings

    return [field.name for field in fields(Settings)] + [*GROUPS] + columns(conf)
