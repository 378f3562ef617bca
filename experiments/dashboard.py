"""Serves means and bands of runs in TensorBoard: `hardgrad dashboard RUNS... [--port 6006]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.compare.command import ERRORS, say
from experiments.compare.forms.aggregates import refuse_other_files, write_aggregates
from experiments.compare.forms.board_names import STRATEGY
from experiments.compare.processes import Workers
from experiments.compare.report import make
from experiments.terminal.console import fold, short_path
from experiments.terminal.output import lasting_output
from experiments.tracking.about import colour_query
from experiments.tracking.outputs import OutputRefused, check_folder
from experiments.tracking.run_errors import reason

HOST = "127.0.0.1"  # reachable from this machine only
# The charts of line and band, without the runs of single seeds; elsewhere one colour a strategy.
VIEW = f"?{colour_query(STRATEGY)}#custom_scalars&regexInput=%5Emean"


@lasting_output()
def main(arguments: list[str] | None = None) -> int:
    """Writes means and bands, serves them until stopped, and returns the exit code.

    0: all is well. 1: a file could not be written. 2: there are no runs, the port is in use, or the log folder cannot
    be written to.
    """
    parser = argparse.ArgumentParser(
        prog="hardgrad dashboard", description="Shows mean and band of runs in TensorBoard."
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUNS", help="run folders, or folders that hold them")
    parser.add_argument("--port", type=int, default=6006, help="0 takes a free port; default %(default)s")
    parser.add_argument("--logdir", type=Path, help="keep TensorBoard's files there; default: a temporary folder")
    given = parser.parse_args(arguments)
    try:
        with _log_folder(given.logdir) as folder:
            check_folder(folder)
            refuse_other_files(folder)
            with Workers(visible=True) as workers:
                report = make(given.runs, workers=workers)
            for problem in write_aggregates(report, folder):
                print(fold(f"note: {problem}"), file=sys.stderr)
            return _serve(folder, given.port)
    except ERRORS as error:
        return say(error)
    except KeyboardInterrupt:
        return 0


@contextmanager
def _log_folder(chosen: Path | None) -> Iterator[Path]:
    """Yields the chosen folder, or a temporary folder for the block."""
    if chosen is not None:
        yield chosen
        return
    try:
        scratch = tempfile.TemporaryDirectory(prefix="hardgrad-")
    except OSError as error:
        raise OutputRefused(
            f"no temporary folder can be made ({reason(error)}); choose a folder with --logdir"
        ) from None
    with scratch as folder:
        yield Path(folder)


def flags(folder: Path, port: int) -> list[str]:
    """TensorBoard's arguments: serve this machine only, read the files once, show every point of a curve."""
    told = ["--logdir", str(folder), "--host", HOST, "--port", str(port), "--reload_interval", "0"]
    return [*told, "--samples_per_plugin", "scalars=10000,images=100"]


def _serve(folder: Path, port: int) -> int:
    from tensorboard import default, program

    board: Any = program.TensorBoard(default.get_plugins())
    board.configure(argv=["tensorboard", *flags(folder, port)])
    try:
        url = board.launch()
    except program.TensorBoardPortInUseError:
        print(f"error: port {port} is in use; --port 0 takes a free port", file=sys.stderr)
        return 2
    print(f"{url}{VIEW}\nshows {short_path(folder)}; Ctrl+C stops it", flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    sys.exit(main())
