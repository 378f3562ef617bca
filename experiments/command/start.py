"""The start of `python train.py`: the help page needs no torch, everything else says that torch loads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from experiments.command.help import FLAGS, print_help
from experiments.conf_folder import CONF
from experiments.terminal.output import lasting_output
from experiments.terminal.starting import loading


def main(conf: Path = CONF) -> NoReturn:
    """Prints the help page, or runs the command line; then exits."""
    if set(FLAGS) & set(sys.argv):
        with lasting_output():
            print_help(conf)
        sys.exit(0)
    with loading():
        from experiments.command import cli
    cli.main(conf)
