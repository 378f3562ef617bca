"""TensorBoard on the means and bands of runs: `python -m experiments.dashboard RUNS... [--port 6006]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from experiments.compare.command import MISTAKES, in_words
from experiments.compare.forms.aggregates import write_aggregates
from experiments.compare.processes import Workers
from experiments.compare.report import make
from experiments.terminal.console import short_path
from experiments.terminal.output import lasting_output

HOST = "127.0.0.1"  # reachable from this machine only
VIEW = "#custom_scalars&regexInput=%5Emean"  # the charts of mean and band, without the runs of single seeds


@lasting_output()
def main(arguments: list[str] | None = None) -> int:
    """Writes the aggregate runs and serves them until stopped; 0 if all is well, 2 for no runs or a port in use."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.dashboard", description="TensorBoard on mean and band."
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUNS", help="run folders, or folders that hold them")
    parser.add_argument("--port", type=int, default=6006, help="0 takes a free one; default %(default)s")
    parser.add_argument("--logdir", type=Path, help="where to keep the files that TensorBoard reads; default: nowhere")
    given = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="hardgrad-") as scratch:
            folder = given.logdir or Path(scratch)
            with Workers(visible=True) as workers:
                report = make(given.runs, workers=workers)
            for problem in write_aggregates(report, folder):
                print(f"note: {problem}", file=sys.stderr)
            return _serve(folder, given.port)
    except MISTAKES as error:
        print(f"error: {in_words(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0


def flags(folder: Path, port: int) -> list[str]:
    """TensorBoard's arguments: loopback only, read once, every point of a curve."""
    told = ["--logdir", str(folder), "--host", HOST, "--port", str(port), "--reload_interval", "0"]
    return [*told, "--samples_per_plugin", "scalars=10000,images=100"]


def _serve(folder: Path, port: int) -> int:
    from tensorboard import default, program

    board: Any = program.TensorBoard(default.get_plugins())
    board.configure(argv=["tensorboard", *flags(folder, port)])
    try:
        url = board.launch()
    except program.TensorBoardPortInUseError:
        print(f"error: port {port} is in use; --port 0 takes one that is free", file=sys.stderr)
        return 2
    print(f"{url}{VIEW}\nshows {short_path(folder)}; Ctrl+C stops it", flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    sys.exit(main())
