"""The command line: Hydra's, with its errors and a run's end put into words."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from experiments.command.errors import readable, refuse_repeated_keys
from experiments.command.task import JobFailed, Task, UserError
from experiments.config.hydra_command import run_hydra
from experiments.sweep.head_start import HeadStart
from experiments.terminal.output import lasting_output
from experiments.training.interruption import Interrupted


@lasting_output()
def main(conf: Path, head_start: HeadStart | None = None) -> NoReturn:
    """Runs the job or the sweep that the command line asks for, and exits: 0 if all is well.

    1: a run failed; 2: the command, configuration, data or folder is wrong, or the cell is empty; 130, 143: stopped by
    a signal.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # errors come to us instead of being printed as a trace
    task = Task(conf, list(sys.argv), uuid.uuid4().hex)
    try:
        refuse_repeated_keys(sys.argv[1:])
        with _terminable():
            sweeper = head_start and head_start.sweeper(task)
            if sweeper:
                sweeper.sweep(sweeper.config.hydra.overrides.task)
            else:
                run_hydra(conf, task)
        if task.refused is not None:
            raise task.refused
    except (*UserError, HydraException, OmegaConfBaseException) as error:
        _exit(2, f"error: {readable(error, conf)}")
    except JobFailed as error:  # from a sweeper of others
        _exit(1, f"error: {error}")
    except KeyboardInterrupt as stopped:
        signum = int(getattr(stopped, "signum", signal.SIGINT))
        _exit(128 + signum, "stopped; the same command goes on from here")
    except Exception as error:
        if task.begun:
            raise
        _exit(2, f"error: {readable(error, conf)}")
    sys.exit(task.code)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM stops as Ctrl-C does, so that a sweep can say how far it came."""

    def stop(signum: int, _: Any) -> None:
        raise Interrupted(signum)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(code: int, message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(code)
