"""Runs a study: `python -m experiments.study strategies hydra/launcher=stacked`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.command.cli import sigterm_as_interrupt
from experiments.conf_folder import CONF
from experiments.config.config_hash import NOT_HASHED
from experiments.config.folder_names import override_key
from experiments.config.keys import options
from experiments.config.settings import LOOKING
from experiments.config.values import ConfigError
from experiments.study.stage import Caller, Unfinished
from experiments.study.study_file import study_path
from experiments.terminal.extras import needing
from experiments.terminal.output import lasting_output
from experiments.tracking.outputs import OutputFailed
from experiments.training.user_errors import USER_ERRORS

CONDUCT = [key for key in NOT_HASHED if key not in ("overwrite", *LOOKING)]
LAUNCHER = ("hydra/launcher", "hydra.launcher")


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="hardgrad study",
        description="Chooses learning rates and other values on validation data, reports at what was chosen, and "
        "compares. The same command resumes a study.",
        epilog=f"Studies: {', '.join(options(CONF, 'study'))}.",
    )
    add = made.add_argument
    add("study", metavar="NAME", help="a study of conf/study, or a YAML file of your own")
    keys = f"how the runs are carried out: hydra/launcher, {', '.join(CONDUCT)}"
    add("overrides", nargs="*", metavar="KEY=VALUE", help=keys)
    add("--folder", type=Path, help="where runs and report go (runs/studies/NAME)")
    add("--config-dir", type=Path, metavar="FOLDER", help="a folder of your own options, as for train")
    return made


@lasting_output()
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs, resumes or plans a study and returns the exit code.

    0: all is well; a run that diverged is a result. 1: a run crashed or is unfinished, or a file cannot be written.
    2: the study, the command or a folder is wrong. 3: another command still runs some of the jobs. 130, 143: stopped.
    """
    given = _parser().parse_intermixed_args(arguments)
    try:
        with sigterm_as_interrupt():
            _run(given)
    except Unfinished as unfinished:
        return _say(unfinished.code, str(unfinished))
    except OutputFailed as error:
        return _say(1, f"error: {error}")
    except (*USER_ERRORS, ModuleNotFoundError) as error:
        return _say(2, f"error: {error}")
    except KeyboardInterrupt as stopped:
        return _say(128 + int(getattr(stopped, "signum", signal.SIGINT)), "stopped; run the same command to resume")
    return 0


def _run(given: argparse.Namespace) -> None:
    for override in given.overrides:
        key = override_key(override)
        if "=" not in override or not (key in CONDUCT or key.startswith(LAUNCHER)):
            known = ", ".join(["hydra/launcher", *CONDUCT])
            raise ConfigError(f"{override} is no part of how a study is carried out ({known}); the study file has it")
    with needing("compare"):
        from experiments.study.whole_study import run_study
    path = study_path(given.study, CONF)
    planning = [text for text in given.overrides if override_key(text) == "dry_run"]
    carried = [text for text in given.overrides if text not in planning]
    caller = Caller(carried, [given.study, *carried], given.config_dir)
    folder = given.folder or Path("runs", "studies", path.stem)
    run_study(path, folder.absolute(), caller, planning[-1:] == ["dry_run=true"])


def _say(code: int, message: str) -> int:
    print(message, file=sys.stderr)
    return code
