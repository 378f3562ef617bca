"""Trains one model, or with -m a sweep: `python train.py strategy=ste`. All choices: `python train.py --help`."""

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from experiments.sweep.head_start import HeadStart

conf = Path(__file__).resolve().parent / "conf"
status = 1  # of the process, until `main` has said it


def leave() -> None:
    """Ends the process; Python would take apart all that was imported first, which takes half a second."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # there may be none, or nobody who reads it
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    atexit.register(leave)  # the first to be registered, which runs last
    head_start = HeadStart(conf)
    stoppable = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if stoppable:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is begun: a trace would say nothing

gc.disable()  # what is imported stays, and is not worth looking through again and again
from experiments.command.cli import main  # noqa: E402

gc.freeze()
gc.enable()

if __name__ == "__main__":
    if stoppable:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main(conf, head_start)
    except SystemExit as end:
        status = int(end.code or 0)
        raise
