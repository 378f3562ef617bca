"""The command line: Hydra's, with its own messages and exit codes."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from experiments.command.errors import SWEEP_FLAGS, readable, refuse_repeated_keys
from experiments.command.task import Task
from experiments.conf_folder import CONF
from experiments.config import VERSION_BASE
from experiments.sweep.ending import JobFailed
from experiments.terminal.output import lasting_output
from experiments.training.interruption import Interrupted, interrupt_behind
from experiments.training.user_errors import USER_ERRORS


@lasting_output()
def main(conf: Path = CONF) -> NoReturn:
    """Runs the job or the sweep that the command line asks for, then exits.

    Exit codes: 0 success; 1 a run failed; 2 the command, configuration, data or folder is wrong, or the pair is not
    applicable; 3 no job failed, but other commands still run some; 130, 143 stopped by a signal.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra raises errors instead of printing a trace
    task = Task(conf, list(sys.argv), uuid.uuid4().hex)
    try:
        with sigterm_as_interrupt():
            execute(task, sys.argv[1:])
    except (*USER_ERRORS, HydraException, OmegaConfBaseException) as error:
        _exit(2, f"error: {readable(error, conf)}")
    except JobFailed as error:  # from a sweeper other than ours
        _exit(1, f"error: {error}")
    except KeyboardInterrupt as stopped:
        signum = int(getattr(stopped, "signum", signal.SIGINT))
        _exit(128 + signum, "stopped; run the same command to resume")
    except Exception as error:
        if task.begun:
            raise
        _exit(2, f"error: {readable(error, conf)}")
    sys.exit(task.code)


def execute(task: Task, arguments: Sequence[str]) -> None:
    """Calls Hydra with the arguments; raises the error that keeps a run or a sweep from starting.

    Sweep flags are moved to the front: Hydra refuses overrides that follow a second flag.
    """
    refuse_repeated_keys(arguments)
    before = sys.argv
    flags = [argument for argument in arguments if argument in SWEEP_FLAGS]
    sys.argv = [task.typed[0], *flags, *(argument for argument in arguments if argument not in flags)]
    try:
        hydra.main(version_base=VERSION_BASE, config_path=str(task.conf), config_name="config")(task)()
    finally:
        sys.argv = before
    if task.refused is not None:
        raise task.refused


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Treats SIGTERM as Ctrl-C in a block, so that a sweep still prints its report."""

    def stop(signum: int, _: Any) -> None:
        raise Interrupted(signum)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except Exception as error:
        interrupt = interrupt_behind(error)
        if interrupt is not None:
            raise interrupt from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(code: int, message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(code)
