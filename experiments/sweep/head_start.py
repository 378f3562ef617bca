"""The jobs of a sweep, composed in a process of their own while this one imports torch, which takes longer.

What goes wrong there is not said there: this process then has Hydra compose them once more, and says it.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from experiments.config.hydra_command import SWEEPS, VERSION_BASE, run_hydra


class HeadStart:
    """Begins when it is made, where the command line asks for a sweep and there is a core to spare."""

    def __init__(self, conf: Path) -> None:
        self._other, self._pipe = 0, -1
        if set(SWEEPS) & set(sys.argv[1:]) and _is_possible():
            self._pipe, writing = os.pipe()
            self._other = os.fork()
            if self._other == 0:
                os.close(self._pipe)
                _compose(conf, writing)
            os.close(writing)

    def sweeper(self, task: Any) -> Any:
        """A sweeper with its jobs composed, Hydra being as it would be before its sweep; None where there is none."""
        if not self._other:
            return None
        with open(self._pipe, "rb") as pipe:
            sent = pipe.read()
        os.waitpid(self._other, 0)
        self._other = 0
        with suppress(EOFError, pickle.UnpicklingError):  # nothing was sent, or not all of it
            return _received(sent, task)
        return None


def _is_possible() -> bool:
    if None in (sys.stdin, sys.stdout, sys.stderr):  # the pipe would take their numbers
        return False
    return hasattr(os, "fork") and hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1


def _received(sent: bytes, task: Any) -> Any:
    from hydra.core.utils import JobRuntime, configure_log, setup_globals
    from hydra.version import setbase

    setbase(VERSION_BASE)
    setup_globals()
    gc.disable()  # what is read stays, as what is imported does
    try:
        sweeper = pickle.loads(sent)
        gc.freeze()
    finally:
        gc.enable()
    sweeper.task_function = task
    own = sweeper.config.hydra
    JobRuntime.instance().set("name", own.job.name)
    configure_log(own.hydra_logging, own.verbose)
    return sweeper


def _compose(conf: Path, pipe: int) -> NoReturn:
    """What the other process does: all that Hydra does before a sweep, and in its place this; Hydra runs nothing."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        from hydra._internal.hydra import Hydra

        from experiments.config.folder_names import register_resolvers

        def multirun(self: Any, config_name: str, task_function: Any, overrides: list[str], **_: Any) -> None:
            with open(pipe, "wb") as file:
                file.write(_composed(self, config_name, overrides))

        register_resolvers()
        untyped: Any = Hydra
        untyped.run, untyped.multirun = _no_task, multirun
        run_hydra(conf, _no_task)
    finally:
        os._exit(0)


def _no_task(*_: Any, **__: Any) -> None:
    """Nothing is run."""


def _composed(hydra: Any, config_name: str, overrides: list[str]) -> bytes:
    """The sweeper as it is to be sent; nothing where it is not ours, or Hydra is to say or call something."""
    from hydra._internal.callbacks import Callbacks
    from hydra.core.plugins import Plugins
    from hydra.types import HydraContext, RunMode

    config = hydra.compose_config(config_name, overrides, RunMode.MULTIRUN, with_log_configuration=True)
    if config.hydra.verbose or config.hydra.callbacks or config.hydra.runtime.choices["hydra/sweeper"] != "listed":
        return b""
    sweeper: Any = Plugins.instance().instantiate_sweeper(
        config=config, hydra_context=HydraContext(hydra.config_loader, Callbacks()), task_function=_no_task
    )
    sweeper.composer.prepare(sweeper.listed(config.hydra.overrides.task))
    return pickle.dumps(sweeper)
